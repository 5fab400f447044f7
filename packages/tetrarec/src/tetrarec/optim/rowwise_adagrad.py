"""Row-wise Adagrad, under the path that users know."""

from tetrarec.optim._rowwise_adagrad import RowWiseAdagrad

__all__ = ["RowWiseAdagrad"]
