"""How to run a block: loop IR, schedules and their C or OpenCL text."""
