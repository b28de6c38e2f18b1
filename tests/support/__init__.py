"""Fakes, builders and a naive oracle for tests of Carnac, and of programs that use it. Shipped with Carnac."""
