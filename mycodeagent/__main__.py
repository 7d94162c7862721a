"""`python -m mycodeagent`."""

from mycodeagent import main

main()
