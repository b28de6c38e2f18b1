"""The pages of `docs/reference/`, made from code and benchmark results by `make docs`; `render()` of each gives one."""
