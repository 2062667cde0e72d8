"""All contracts, by the names that case files use."""

from __future__ import annotations

from receiptlab.contracts.base import Contract
from receiptlab.contracts.intake.intake import Intake
from receiptlab.contracts.owner import Owner
from receiptlab.contracts.receiver import Receiver
from receiptlab.contracts.retention import Retention
from receiptlab.contracts.work.work import Work

CONTRACTS: dict[str, type[Contract]] = {
    contract.NAME: contract for contract in (Owner, Retention, Intake, Work, Receiver)
}
