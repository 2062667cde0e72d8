"""Every contract by the name that a case file calls it."""

from __future__ import annotations

from receiptlab.contracts.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.shape import Contract
from receiptlab.contracts.work import Work

CONTRACTS: dict[str, type[Contract]] = {
    contract.NAME: contract for contract in (Owner, Retention, Intake, Work, Receiver)
}
