"""A folder of models converted unattended: sources, isolated work, a ledger to resume from."""
