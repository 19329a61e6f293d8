"""Programs that run with the packages of public management clients, each in an environment of its own."""
