"""A signal stops training after the current update, whatever is written at that moment."""

import os
import signal

import pytest

from regard.verbs.training_run.stop_signal import stop_signal


def test_a_signal_while_a_line_is_written_is_noted_all_the_same():
    """Python refuses to write into a stream from a handler that interrupted a writing."""

    def say(text):
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    before = signal.getsignal(signal.SIGTERM)
    with stop_signal(say) as stop:
        assert stop() is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop() == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_first_signal_is_announced_once():
    said = []
    with stop_signal(said.append) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop() == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    [line] = said
    assert "a second signal stops at once" in line
