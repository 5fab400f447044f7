"""Value estimators."""
