"""`python -m egraph_fusion`: the command line."""

from egraph_fusion.cli import main

if __name__ == "__main__":
    main()
