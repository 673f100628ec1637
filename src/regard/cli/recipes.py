"""`regard recipes`."""

import click

from regard.cli.group import Command, VerbGroup


@click.group("recipes", cls=VerbGroup, usual="show", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the recipes that come with regard, show one, or print all keys."""
    if ctx.invoked_subcommand is None:
        from regard import console
        from regard.verbs.recipes import recipes

        rows = [[recipe.name, recipe.description] for recipe in recipes()]
        console.table("recipes: `regard recipes show NAME`", ["name", "what it trains"], rows)


@command.command("show", cls=Command)
@click.argument("name")
def show(name: str) -> None:
    """Print a recipe; `regard recipes show NAME > my.toml` copies it."""
    from regard.verbs.recipes import recipes_show

    click.echo(recipes_show(name), nl=False)


@command.command("keys", cls=Command)
@click.argument("table", required=False)
def keys(table: str | None) -> None:
    """Print the keys of recipes: their types, their defaults and what they mean.

    TABLE, such as training or training.schedule: only the tables of this name and those below it.
    """
    from regard.verbs.recipe_keys import recipes_keys

    click.echo(recipes_keys(table), nl=False)
