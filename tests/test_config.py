"""The mode, and where it comes from."""

import asyncio
import threading

import jax.numpy as jnp
import pytest

import fusegate as fg
from fusegate import config
from fusegate.config import Mode


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch, tmp_path):
    """A process without settings, in a directory without a project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FUSEGATE_MODE", raising=False)
    config._project_at.cache_clear()
    before = (config._settings.chosen, config._settings.plugin)
    config._settings.chosen = config._settings.plugin = None
    yield
    config._settings.chosen, config._settings.plugin = before
    config._project_at.cache_clear()


def project(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    config._project_at.cache_clear()


def test_the_first_that_speaks_decides(monkeypatch, tmp_path):
    assert config.resolve() is Mode.WARN
    config.set_plugin_mode(Mode.STRICT)
    assert config.resolve() is Mode.STRICT
    project(tmp_path, '[tool.fusegate]\nmode = "off"\n')
    assert config.resolve() is Mode.OFF
    monkeypatch.setenv("FUSEGATE_MODE", "STRICT")
    assert config.resolve() is Mode.STRICT
    fg.set_mode("warn")
    assert config.resolve() is Mode.WARN
    with fg.mode("off"):
        assert config.resolve() is Mode.OFF
        with fg.mode("strict"):
            assert config.resolve() is Mode.STRICT
        assert config.resolve() is Mode.OFF
        assert config.resolve(Mode.STRICT) is Mode.STRICT
    fg.set_mode(None)
    assert config.resolve() is Mode.STRICT


def test_module_patterns_the_longest_wins(tmp_path):
    project(
        tmp_path,
        '[tool.fusegate]\nmode = "warn"\n[tool.fusegate.modes]\n'
        '"prover.*" = "strict"\n"prover.legacy.*" = "off"\n',
    )
    assert config.resolve(module="other") is Mode.WARN
    assert config.resolve(module="prover") is Mode.STRICT
    assert config.resolve(module="prover.fri") is Mode.STRICT
    assert config.resolve(module="prover.legacy.whir") is Mode.OFF
    assert config.resolve(module="provers") is Mode.WARN


def test_the_project_is_the_nearest_above_the_working_directory(tmp_path, monkeypatch):
    project(
        tmp_path,
        '[tool.fusegate]\nmode = "strict"\nslow_dispatches = 3\nfused_regions = ["my.region"]\n',
    )
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert config.resolve() is Mode.STRICT
    assert config.thresholds().slow_dispatches == 3
    assert config.thresholds().captured_bytes == 4 * 1024 * 1024
    assert config.project().fused_regions == {"zorch.fused_region", "my.region"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[tool.fusegate\n", "not readable as TOML"),
        ('[tool]\nfusegate = "strict"\n', "not a table"),
        ('[tool.fusegate]\nmode = "loud"\n', "unknown mode 'loud'"),
        ("[tool.fusegate]\nmode = 3\n", "mode"),
        ('[tool.fusegate]\nmods = "strict"\n', "no key 'mods'"),
        ("[tool.fusegate]\nslow_dispatches = 0\n", "slow_dispatches"),
        ("[tool.fusegate]\nslow_dispatches = true\n", "slow_dispatches"),
        ('[tool.fusegate]\nmodes = "strict"\n', "modes"),
        ('[tool.fusegate.modes]\n"a.*" = "loud"\n', "modes.a"),
        ('[tool.fusegate]\nfused_regions = "x"\n', "fused_regions"),
    ],
)
def test_a_malformed_project_is_told_at_decoration_with_the_file(tmp_path, text, match):
    project(tmp_path, text)
    with pytest.raises(ValueError, match=match) as caught:
        fg.island(lambda x: x)
    assert "pyproject.toml" in str(caught.value)


def test_a_malformed_environment_is_told_at_decoration(monkeypatch):
    monkeypatch.setenv("FUSEGATE_MODE", "loud")
    with pytest.raises(ValueError, match="FUSEGATE_MODE: unknown mode 'loud'"):
        fg.island(lambda x: x)


@pytest.mark.parametrize("bad", [3, True, b"strict"])
def test_a_mode_is_a_word(bad):
    with pytest.raises(TypeError):
        fg.set_mode(bad)
    with pytest.raises(TypeError), fg.mode(bad):
        pass


def test_a_scope_is_seen_by_its_own_thread_and_task_only():
    seen = {}

    def other():
        seen["thread"] = config.resolve()

    with fg.mode("strict"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen["thread"] is Mode.WARN

    async def scoped():
        with fg.mode("strict"):
            await asyncio.sleep(0.01)
            return config.resolve()

    async def bare():
        await asyncio.sleep(0.005)
        return config.resolve()

    async def both():
        return await asyncio.gather(scoped(), bare())

    assert asyncio.run(both()) == [Mode.STRICT, Mode.WARN]


def test_switching_the_mode_costs_no_trace():
    f = fg.island(lambda x: x + 1.0)
    with fg.mode("strict"):
        f(jnp.ones(2))
    for word in ("off", "warn", "strict"):
        with fg.mode(word):
            f(jnp.ones(2))
    assert fg.stats(f).traces == fg.stats(f).compiles == 1
