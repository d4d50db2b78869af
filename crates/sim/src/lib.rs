//! Suites, checkers and load drivers; never a dependency of the product.
