"""Policies and values, by the path that users of other libraries know."""

from tetrarl.modules._actors import Actor, ProbabilisticActor, ValueOperator

__all__ = ["Actor", "ProbabilisticActor", "ValueOperator"]
