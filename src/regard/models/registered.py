"""Parts that a config names, own or registered: positions, attention, norms, feed-forward networks.

@register_positions("parity", "input")
class Parity(nn.Module):
    def __init__(self, config, bidirectional): ...
    def forward(self, start, length): ...  # [length, d_model], added to the embeddings
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from torch import nn

from regard.errors import ConfigError, UserError
from regard.layers.attention import SelfAttention
from regard.layers.feedforward import ACTIVATIONS, GATES, feed_forward
from regard.layers.norm import norm
from regard.layers.positions import (
    BucketBias,
    LearnedPositions,
    LinearBias,
    RotaryPositions,
    SinusoidalPositions,
)
from regard.models.trial_state import refuse_unregistered
from regard.registry import Registry, naming_failures, refuse_not_callable, refuse_other_arguments

Config = Any  # a TransformerConfig, whose file imports this one
Where = Literal["input", "scores", "queries_and_keys", "nowhere"]
Made = TypeVar("Made", bound=Callable[..., nn.Module])
Part = TypeVar("Part", bound=nn.Module)


class PositionalEncoding(NamedTuple):
    """Where a positional encoding enters a stack; `make(config, bidirectional)` gives its module."""

    where: Where
    make: Callable[[Config, bool], nn.Module]


def _sinusoidal(config: Config, bidirectional: bool) -> nn.Module:
    layout = config.position_layout
    offset = config.position_offset if layout == "fairseq" else 0
    return SinusoidalPositions(config.d_model, layout, offset=offset)


def _learned(config: Config, bidirectional: bool) -> nn.Module:
    return LearnedPositions(config.d_model, config.max_positions, config.position_offset)


def _rotary(config: Config, bidirectional: bool) -> nn.Module:
    return RotaryPositions(
        config.d_head, config.rotary_base, rotary_dim=config.rotary_dim, scaling=config.rotary_scaling
    )


def _alibi(config: Config, bidirectional: bool) -> nn.Module:
    return LinearBias(config.num_heads, directed=bidirectional and config.alibi == "directed")


def _t5(config: Config, bidirectional: bool) -> nn.Module:
    return BucketBias(
        config.num_heads,
        bidirectional=bidirectional,
        num_buckets=config.position_buckets,
        max_distance=config.position_distance,
    )


def _none(config: Config, bidirectional: bool) -> nn.Module:
    return nn.Identity()


POSITIONS: Registry[PositionalEncoding] = Registry(
    "positional encoding",
    {
        "sinusoidal": PositionalEncoding("input", _sinusoidal),
        "learned": PositionalEncoding("input", _learned),
        "rotary": PositionalEncoding("queries_and_keys", _rotary),
        "alibi": PositionalEncoding("scores", _alibi),
        "t5": PositionalEncoding("scores", _t5),
        "none": PositionalEncoding("nowhere", _none),
    },
    how="register_positions of regard.models",
)
ATTENTIONS: Registry[Callable[..., SelfAttention]] = Registry(
    "self-attention", {"softmax": SelfAttention}, how="register_attention of regard.models"
)


def _norm(config: Config, width: int) -> nn.Module:
    return norm(config.norm, width, bias=config.bias, eps=config.norm_eps)


def _feed_forward(config: Config) -> nn.Module:
    bias = config.has_feed_forward_bias
    return feed_forward(
        config.activation,
        config.d_model,
        config.d_ff,
        dropout=config.activation_dropout,
        bias=bias,
        gated_bias=bias,
    )


NORMS: Registry[Callable[[Config, int], nn.Module]] = Registry(
    "norm", dict.fromkeys(("layer", "rms"), _norm), how="register_norm of regard.models"
)
FEED_FORWARDS: Registry[Callable[[Config], nn.Module]] = Registry(
    "activation",
    dict.fromkeys([*ACTIVATIONS, *GATES], _feed_forward),
    how="register_feed_forward of regard.models",
)

# what each self-attention is made with; some configs give more: output_bias, softcap, qk_norm_width
ATTENTION_ARGUMENTS = ("num_kv_heads", "d_head", "scale", "dropout", "bias", "rotary", "qk_norm")
ATTEND_ARGUMENTS = ("query", "key", "value", "mask", "position_bias", "dropout")
POSITION_ARGUMENTS: dict[Where, tuple[str, str]] = {
    "input": ("start", "length"),
    "scores": ("queries", "keys"),
    "queries_and_keys": ("x", "start"),
}
POSITION_KINDS: dict[Where, type[nn.Module]] = {
    "input": nn.Module,
    "scores": nn.Module,
    "queries_and_keys": RotaryPositions,
    "nowhere": nn.Module,
}


def register_positions(
    name: str, where: Literal["input", "scores", "queries_and_keys"]
) -> Callable[[Made], Made]:
    """Make a positional encoding known by a name, for `positions` in a config and in `[model]` of a recipe.

    The decorated class or function is called with two positional arguments, the config and `bidirectional`,
    and gives a module. `bidirectional` is False for the "scores" of a decoder, True otherwise. Each stack has
    a module of its own. Its arguments depend on where it enters:

    - "input": `(start, length)`, two ints. It gives [length, d_model], which is added to the embeddings of
      positions `start` to `start + length - 1`. Decoding calls it with other starts than 0. A model that
      packs documents also calls `at(positions)` with int64 [batch, length], for [batch, length, d_model].
    - "scores": `(queries, keys)`, two counts; the queries are the last positions of the keys. It gives a
      tensor that broadcasts to [1, heads, queries, keys], which is added to the scores in each layer.
    - "queries_and_keys": as `RotaryPositions`, of which it must be a subclass: `(x, start)`, the queries or
      the keys [batch, heads, length, d_head] from position `start`. It gives the same shape.

    It initialises its own layers and parameters when it is made; PyTorch's generator then has the run's seed.
    Other arguments are set by `[model.options.positions]`.

    Raises:
        ConfigError: `where` is not one of these, or the decorated class is not such a module or cannot be
            called in this way.
        UserError: the name is empty, or one of regard's own.
    """
    if where not in ("input", "scores", "queries_and_keys"):
        raise ConfigError(f"where = {where!r} is unknown", "input, scores or queries_and_keys")
    register = POSITIONS.register(name)

    def add(make: Made) -> Made:
        refuse_not_callable(make, what := f"the positional encoding {name!r}")
        kind: Any = make
        if isinstance(kind, type) and not issubclass(kind, POSITION_KINDS[where]):
            raise wrong_positions(name, where)
        refuse_other_arguments(make, what, ("config", "bidirectional"), kind=ConfigError)
        register(PositionalEncoding(where, make))
        return make

    return add


def register_attention(name: str) -> Callable[[Any], Any]:
    """Make a self-attention known by a name, for `attention` in a config and in `[model]` of a recipe.

    What is decorated is a subclass of `SelfAttention`, or a callable with the same arguments that returns an
    instance of one. Layers that the subclass adds keep the values that it gives them; those of
    `SelfAttention` are initialised with the model. A method `attend` replaces scaled dot-product attention,
    and has to cap scores at `self.softcap` itself, if that is not None. A class whose weights do not depend
    on the queries, such as an average, has `ignores_queries = True`; without it this counts as a mistake.
    Other arguments than those of `SelfAttention` are set by `[model.options.attention]`.

    Raises:
        ConfigError: a class is not a subclass of `SelfAttention`, or overrides none of its methods; or what
            is decorated cannot be called with the arguments of `SelfAttention`.
        UserError: the name is empty, or one of regard's own.
    """
    register = ATTENTIONS.register(name)

    def add(make: Any) -> Any:
        refuse_not_callable(make, f"the self-attention {name!r}")
        if isinstance(make, type) and not issubclass(make, SelfAttention):
            raise wrong_attention(name)
        if isinstance(make, type) and not _overrides(make):
            raise ConfigError(
                f"the self-attention {name!r} overrides no method of SelfAttention, so it would be the same",
                f"define attend or forward in {make.__name__}",
            )
        what = f"the self-attention {name!r}"
        refuse_other_arguments(make, what, ("d_model", "num_heads"), ATTENTION_ARGUMENTS, kind=ConfigError)
        return register(make)

    return add


def register_norm(name: str) -> Callable[[Made], Made]:
    """Make a norm known by a name, for `norm` in a config and in `[model]` of a recipe.

    The decorated class or function is called with the config and the width of what is normalised, and gives a
    module: [..., width] -> [..., width]. A model has many: before or after sub-layers, at the ends of stacks,
    and of queries and keys with `qk_norm`. Each initialises itself when it is made. Other arguments of the
    class or function are set by `[model.options.norm]`.

    Raises:
        UserError: the name is empty or one of regard's own, or what is registered cannot be called.
    """
    return _add_to(NORMS, name, ("config", "width"))


def register_feed_forward(name: str) -> Callable[[Made], Made]:
    """Make a feed-forward network known by a name, for `activation` in a config and in `[model]` of a recipe.

    The decorated class or function is called with the config, and gives a module: [..., d_model] ->
    [..., d_model], the same for each position. Each layer has one, which initialises itself when it is made.
    For another activation in the same network, return `FeedForward(config.d_model, config.d_ff, function)` of
    regard.layers. Other arguments are set by `[model.options.activation]`.

    Raises:
        UserError: the name is empty or one of regard's own, or what is registered cannot be called.
    """
    return _add_to(FEED_FORWARDS, name, ("config",))


def _add_to(registry: Registry[Any], name: str, arguments: tuple[str, ...]) -> Callable[[Made], Made]:
    register = registry.register(name)

    def add(make: Made) -> Made:
        refuse_not_callable(make, what := f"the {registry.what} {name!r}")
        if isinstance(make, nn.Module):
            raise UserError(
                f"{what} is a module, which all layers would share", "register its class, or a function"
            )
        refuse_other_arguments(make, what, arguments, kind=ConfigError)
        return register(make)

    return add


def made_norm(config: Config, width: int) -> nn.Module:
    """The norm of a config, for states of this width.

    Raises:
        ConfigError: a registered one is not a module.
    """
    axes = (3, 4) if config.qk_norm else (3,)  # queries and keys have heads, too
    made = called_part(NORMS, config.norm, NORMS[config.norm], config, width, **options_of(config, "norm"))
    return _own_or_marked(NORMS, config.norm, made, width, axes)


def made_feed_forward(config: Config) -> nn.Module:
    """The feed-forward network of a config.

    Raises:
        ConfigError: a registered one is not a module.
    """
    options = options_of(config, "activation")
    made = called_part(FEED_FORWARDS, config.activation, FEED_FORWARDS[config.activation], config, **options)
    return _own_or_marked(FEED_FORWARDS, config.activation, made, config.d_model, (3,))


def options_of(config: Config, setting: str) -> dict[str, Any]:
    """The options of the registered part that this setting of a config names."""
    return dict((getattr(config, "options", None) or {}).get(setting, {}))


def called_part(
    registry: Registry[Any], name: str, make: Callable[..., Any], *arguments: Any, **by_name: Any
) -> Any:
    """What the part of this name makes.

    Raises:
        ConfigError: it is a registered one, and cannot be called in this way or fails.
    """
    if name in registry.own:
        return make(*arguments, **by_name)
    given = ", ".join([*(type(each).__name__ for each in arguments), *(f"{each}=..." for each in by_name)])
    what = f"the {registry.what} {name!r}"
    hint = f"it is called once for each such part of a model, with {given}, and returns a module"
    # PyTorch's own errors are not renamed: a size that is too large, a tensor without values
    with naming_failures(what, make, hint, kind=ConfigError, unnamed=(RuntimeError,)):
        return make(*arguments, **by_name)


class Mark(NamedTuple):
    """What a registered part in a model is."""

    what: str  # for messages
    sizes: tuple[tuple[int, ...], ...]  # of the states of its trial; none if it is called with others
    times: int  # how often its maker has given this module
    identity: int  # of the module, which copies do not have


def marked(part: Part, what: str, *, is_own: bool, sizes: tuple[tuple[int, ...], ...] = ()) -> Part:
    """The part; a registered one initialises itself, so that `initialise.xavier` leaves it as it is."""
    if not is_own:
        refuse_unregistered(what, part)
        before = mark_of(part)
        times = before.times + 1 if before is not None and before.identity == id(part) else 1
        part.initialises_itself = True  # pyright: ignore[reportArgumentType]
        part.registered_mark = Mark(what, sizes, times, id(part))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    return part


def mark_of(part: nn.Module) -> Mark | None:
    """What `marked` has noted of a registered part; None for other modules."""
    return getattr(part, "registered_mark", None)


def _own_or_marked(
    registry: Registry[Any], name: str, made: Any, width: int, axes: tuple[int, ...]
) -> nn.Module:
    """The module; a registered one is marked as one that initialises itself, and that `build_model` tries.

    Raises:
        ConfigError: it is not a module.
    """
    if name in registry.own:
        return made
    what = f"the {registry.what} {name!r}"
    if not isinstance(made, nn.Module):
        raise ConfigError(f"{what} is {type(made).__name__}, not a torch.nn.Module", "return a module")
    sizes = tuple((*(2, 3, 4)[: each - 1], width) for each in axes)
    return marked(made, what, is_own=False, sizes=sizes)


def _overrides(kind: type[SelfAttention]) -> bool:
    """True if this subclass of SelfAttention has an `attend`, or another method or property than its own."""
    names = ["__init__", *(name for name in dir(SelfAttention) if not name.startswith("__"))]
    changed = (name for name in names if getattr(kind, name) is not getattr(SelfAttention, name))
    return hasattr(kind, "attend") or any(changed)


def refuse_other_calls(part: SelfAttention, what: str) -> None:
    """Raise a ConfigError if a registered self-attention cannot be called as a block and `forward` do."""
    x_mask, by_name = ("x", "x", "mask"), ("position_bias", "cache")
    refuse_other_arguments(part.forward, f"{what}: forward", x_mask, by_name, kind=ConfigError)
    refuse_other_arguments(part.attend, f"{what}: attend", ATTEND_ARGUMENTS, kind=ConfigError)


def wrong_attention(name: str) -> ConfigError:
    """The error for a registered self-attention that is none."""
    return ConfigError(
        f"the self-attention {name!r} is not a subclass of SelfAttention, which uses masks and the cache",
        "inherit from SelfAttention of regard.layers, and define attend or forward",
    )


def wrong_positions(name: str, where: Where) -> ConfigError:
    """The error for a registered positional encoding that cannot enter where it says."""
    if where == "queries_and_keys":
        return ConfigError(
            f"the positional encoding {name!r} is for queries_and_keys, but no subclass of RotaryPositions",
            "inherit from RotaryPositions of regard.layers, or register it for input or scores",
        )
    return ConfigError(
        f"the positional encoding {name!r} is not a subclass of torch.nn.Module",
        "inherit from torch.nn.Module",
    )


# settings of a config that name a part
PARTS: dict[str, Registry[Any]] = {
    "positions": POSITIONS,
    "attention": ATTENTIONS,
    "norm": NORMS,
    "activation": FEED_FORWARDS,
}


def registered_parts(config: Any) -> dict[str, str]:
    """The settings of a config that name a registered part, with its name."""
    names: dict[str, Any] = {setting: getattr(config, setting, None) for setting in PARTS}
    return {setting: name for setting, name in names.items() if name in PARTS[setting].added}
