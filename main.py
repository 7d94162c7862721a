"""Start the terminal program from a checkout: `python main.py`."""

from agent.terminal.launch import main

if __name__ == "__main__":
    main()
