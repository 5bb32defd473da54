"""What sets a program from outside: options, tables of defaults, configuration files."""

from __future__ import annotations

import pytest

from rlm_ci.wiki.facts.file_facts import facts_of

PYTHON = '''\
"""Reads shop.toml, as this text says."""

DEFAULT_CONFIG = Frozen({"RATE": 3, "OPEN": True, "odd key": 1, "HOST": None})
OPTIONS = {"few": 1, "keys": 2}


class Shop:
    def read(self, path="~/.shoprc"):
        return load(".env"), load("settings.json"), load("prices.json"), load("a.b.toml.txt")


@click.option("--rate", "-r", help="What it costs.")
@other.option("name")
def main(parser):
    parser.add_argument("-v", "--verbose", action="store_true", help=told)
'''
RUST = """\
struct Opts {
    /// Search all.
    #[arg(long, short = 'H', help = "Search hidden files")]
    hidden: bool,
    #[arg(long = "type", value_name = "kind")]
    pub kind: Kind,
    #[arg(short = 'x')]
    x: bool,
}
// reads "shop.toml"
fn read() { add(".shopignore"); say("see '.gitignore'"); }
#[cfg(test)]
mod tests {
    fn test() { add(".testignore"); }
}
"""
GO = """package a

func F(c *Command) {
	c.Flags().StringVarP(&host, "host", "h", "", "where it is")
	c.Flags().BoolP(name, "n", false, "not literal")
	read("config.yaml")
}
"""


RUST_ENV = """\
#[derive(Debug, Deserialize)]
pub(crate) struct ShopConfig {
    pub(crate) rate: u8,
    open: bool,
}
#[derive(Parser)]
struct Opts {
    /// Where to listen,
    /// on this machine.
    ///
    /// More of it.
    #[arg(long, env = "SHOP_PORT", default_value_t = 80)]
    #[allow(unused)]
    pub(crate) the_port: u16,
}
"""
GO_FLAGS = """package a

const hostHelp = "where it is"

type Config struct {
	Rate int `yaml:"rate"`
	Open bool `yaml:"open,omitempty"`
}

func F() {
	flag.Var(&host, "host", hostHelp)
	flag.StringVar(&x, "name", "none", "what it is called")
	read(".shop.yml", "path/to/x.yml")
}
"""
TABLE = """\
const OPTIONS = [
  { short: 'p', flag: 'port', type: 'string', description: 'where to "listen"' },
  {
    long: 'open',
    description: `for all`,
    parse: () => 1,
  },
]
yargs.option('name', { alias: 'n', describe: 'what it is called' })
yargs.options({
  // all
  'the-size': {
    describe: 'how large\\n' + 'it is',
  },
  tall: { alias: 't', describe: "high" },
})
"""
CLAP = """\
fn args() -> Command {
    Command::new("shop")
        .arg(Arg::new("port").long("the-port").env("SHOP_PORT").help(
            "Where to \\
             listen",
        ))
        .arg(Arg::new("file").index(1))
}
"""
GO_PARTS = """package a

type tomlConfig struct {
	Global *tomlGlobal `toml:"global"`
}

type tomlGlobal struct {
	Rate int `toml:"rate"`
}

type row struct {
	Name string `yaml:"name"`
}

var port = &cli.IntFlag{Name: "port", Usage: "where to listen"}

func F(flags *pflag.FlagSet) {
	flags.StringVarP(&x, "format", "f",
		env("SHOP_FORMAT", "dots"),
		"how it is shown")
}
"""
PICOCLI = """\
class Shop {
    @Option(names = {"-p", "--port"}, description = "where to listen (or not)")
    int port;
}
"""
TYPER = """\
NAME = ".shop-config.yaml"


class ShopSettings(BaseSettings):
    rate: int = 3
    open: bool = True


def run(
    name: str = typer.Option("x", help="Who."),
    port: Annotated[int, typer.Option("--port", "-p", envvar="SHOP_PORT")] = 80,
    other: int = 3,
):
    parser.add_argument("--rate", type=int, default=3, help="What it costs.")
"""


def settings(path: str, text: str) -> list[tuple[str, int, str, str, str]]:
    kinds = ("option", "settings", "configuration keys", "configuration file", "environment")
    return [
        (one.kind, one.line_start, one.within, one.text, one.detail)
        for one in facts_of(path, text.encode()).notes
        if one.kind in kinds
    ]


#: Flags of another package under that name, with defaults, and help that is put together.
PFLAGS = """\
package a

import (
	flag "github.com/spf13/pflag"
)

var (
	sort  = flag.String("sort", "name", "sort output by: "+strings.Join(ids(), ", "))
	short = flag.BoolP("human", "h", false, "for people")
	level = flag.Float64("level", 0.5, "how much is said")
)
"""
#: The usual flags: what says nothing, or is no literal, is no default.
VALUES = """\
package a

import "flag"

var (
	port = flag.Int("port", 8080, "where to listen")
	rate = flag.Int("rate", 0, "what it costs")
	file = flag.String("file", defaultName(), "what is read")
	many = flag.Bool("many", true, "more than one")
	each = flag.Func("each", "what is done with each", func(s string) error { return nil })
)
"""
DEFAULTS = """\
struct Opts {
    #[arg(long = "port", default_value = "80", env = "SHOP_PORT")]
    port: u16,
}
"""


#: A function of the project's own puts the dashes; defaults are pairs; a class is none of a file.
WRAPPED = """\
config_defaults = (("workers", 1), ("max_delay", 10.0), ("logfile", None))


class RuleOption(BaseModel):
    name: str


def option(name, **words):
    return ("-" + name[0], "--" + name, words)


class Parser:
    def made(self):
        return (
            option("max_delay", help="How long (default=10)."),
            option(("k", "worker-type"), dest="kind"),
        )

    def one(self):
        return option("size", default=3)
"""
COMMENTED = """\
#[derive(Parser)]
struct Opts {
    #[arg(long)]
    /// Where to
    /// listen.
    ///
    /// More.
    port: u16,
    #[arg(long)]
    #[allow(unused)]
    /// Said below.
    pub open: bool,
}

fn more(app: Command) -> Command {
    app.arg(arg!(-o --open "Opens it\\nat once"))
        .arg(arg!(--"odd"))
        .arg(arg!(--quiet))
        .arg(Arg::new("port").long("port").default_value("3000").help("Where to\\nlisten"))
}
"""
OPTPARSE = """\
def f(opts)
  opts.on_tail('-h', '--help', "Show it's there") { }
  opts.on('-s', '--sign [hook]', String) { }
  opts.on('--diff [ref]', 'Compare "all"') { }
end
"""
YARGS = """\
import yargs from "yargs";
const cli = yargs(args).options({
  color: { alias: "c", default: true, description: "in colour" },
  "the-size": {
    alias: "s",
    description:
      "how large",
    type: "string",
  },
  tall: { desc: 'high' },
});
"""


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        # With what a name ends is no name of a file.
        ("ends.go", ('package a\n\nfunc F() {\n\tif ext == ".gitignore" {\n\t\tread(".gitignore")\n'
                     '\t\tx = strings.TrimSuffix(base, ".gitignore")\n\t}\n}\n'), [
            ("configuration file", 5, "F", ".gitignore", ""),
        ]),
        ("ends.rb", "def f\n  name.end_with?('.shoprc')\n  read('.shoprc')\nend\n", [
            ("configuration file", 3, "f", ".shoprc", ""),
        ]),
        ("shop/ends.py", "def f(a):\n    if a.endswith('.shoprc'):\n        read('.shoprc')\n", [
            ("configuration file", 3, "f", ".shoprc", ""),
        ]),
        ("pflags.go", PFLAGS, [
            ("option", 8, "", "--sort", "sort output by: (default name)"),
            ("option", 9, "", "--human", "for people"),
            ("option", 10, "", "--level", "how much is said (default 0.5)"),
        ]),
        ("values.go", VALUES, [
            ("option", 6, "", "-port", "where to listen (default 8080)"),
            ("option", 7, "", "-rate", "what it costs"),
            ("option", 8, "", "-file", "what is read"),
            ("option", 9, "", "-many", "more than one (default true)"),
            ("option", 10, "", "-each", ""),
        ]),
        ("src/defaults.rs", DEFAULTS, [
            ("environment", 2, "Opts", "option port, env, default 80", "SHOP_PORT"),
            ("option", 2, "Opts", "--port", "(default 80)"),
        ]),
        ("shop/cli.py", PYTHON, [
            ("settings", 3, "", "DEFAULT_CONFIG", "RATE, OPEN, HOST"),
            ("configuration file", 8, "Shop.read", "~/.shoprc", ""),
            ("configuration file", 9, "Shop.read", ".env", ""),
            ("configuration file", 9, "Shop.read", "settings.json", ""),
            ("option", 12, "main", "--rate, -r", "What it costs."),
            ("option", 15, "main", "-v, --verbose", ""),
        ]),
        ("src/opts.rs", RUST, [
            ("option", 3, "Opts", "--hidden", "Search hidden files"),
            ("option", 5, "Opts", "--type", ""),
            ("configuration file", 11, "read", ".shopignore", ""),
        ]),
        ("a.go", GO, [
            ("option", 4, "F", "--host", "where it is"),
            ("configuration file", 6, "F", "config.yaml", ""),
        ]),
        ("a.js", ("function f() {\n  program.option('-p, --port <n>', 'where to listen');\n"
                 "  read('shop.config.json');\n  read('shop.config.mjs');\n"
                 "  return import('./own.config.js');\n}\n"), [
            ("option", 2, "f", "-p, --port <n>", "where to listen"),
            ("configuration file", 3, "f", "shop.config.json", ""),
            ("configuration file", 4, "f", "shop.config.mjs", ""),
        ]),
        ("src/env.rs", RUST_ENV, [
            ("configuration keys", 1, "ShopConfig", "ShopConfig", "rate, open"),
            ("environment", 12, "Opts", "option the_port, env, default 80", "SHOP_PORT"),
            ("option", 12, "Opts", "--the-port", "Where to listen, on this machine. (default 80)"),
        ]),
        ("f.go", GO_FLAGS, [
            ("configuration keys", 5, "Config", "Config", "rate, open"),
            ("option", 11, "F", "-host", "where it is"),
            ("option", 12, "F", "-name", "what it is called (default none)"),
            ("configuration file", 13, "F", ".shop.yml", ""),
        ]),
        ("shop/run.py", TYPER, [
            ("configuration file", 1, "", ".shop-config.yaml", ""),
            ("configuration keys", 4, "", "ShopSettings", "rate, open"),
            ("option", 10, "run", "--name", "Who. (default 'x')"),
            ("environment", 11, "run", "-p, envvar", "SHOP_PORT"),
            ("option", 11, "run", "--port, -p", "(default 80)"),
            ("option", 14, "run", "--rate", "What it costs. (default 3)"),
        ]),
        ("table.js", TABLE, [
            ("option", 2, "", "--port", 'where to "listen"'),
            ("option", 4, "", "--open", "for all"),
            ("option", 9, "", "--name", "what it is called"),
            ("option", 12, "", "--the-size", "how large"),
            ("option", 15, "", "--tall", "high"),
        ]),
        ("src/clap.rs", CLAP, [
            ("environment", 3, "args", "Arg.env", "SHOP_PORT"),
            ("option", 3, "args", "--the-port", "Where to listen"),
        ]),
        ("parts.go", GO_PARTS, [
            ("configuration keys", 3, "tomlConfig", "tomlConfig", "global"),
            ("configuration keys", 7, "tomlGlobal", "tomlGlobal", "rate"),
            ("option", 15, "", "--port", "where to listen"),
            ("option", 18, "F", "--format", "how it is shown"),
        ]),
        ("Shop.java", PICOCLI, [
            ("option", 2, "Shop", "-p, --port", "where to listen (or not)"),
        ]),
        ("shop/wrapped.py", WRAPPED, [
            ("settings", 1, "", "config_defaults", "workers, max_delay, logfile"),
            ("option", 15, "Parser.made", "--max-delay", "How long (default=10)."),
            ("option", 16, "Parser.made", "--worker-type", ""),
            ("option", 20, "Parser.one", "--size", "(default 3)"),
        ]),
        ("src/commented.rs", COMMENTED, [
            ("option", 3, "Opts", "--port", "Where to listen."),
            ("option", 9, "Opts", "--open", "Said below."),
            ("option", 16, "more", "--open", "Opens it at once"),
            ("option", 18, "more", "--quiet", ""),
            ("option", 19, "more", "--port", "Where to listen (default 3000)"),
        ]),
        ("opts.rb", OPTPARSE, [
            ("option", 2, "f", "-h, --help", "Show it's there"),
            ("option", 3, "f", "-s, --sign [hook]", ""),
            ("option", 4, "f", "--diff [ref]", 'Compare "all"'),
        ]),
        ("yargs.ts", YARGS, [
            ("option", 3, "", "--color", "in colour"),
            ("option", 4, "", "--the-size", "how large"),
            ("option", 10, "", "--tall", "high"),
        ]),
        ("plain.ts", YARGS.replace("yargs", "other"), []),
        ("behind.go", ('package a\n\nfunc F() {\n\tcmd.Flags().StringVarP(out, "out", "o",\n'
                       '\t\t"std",\n'
                       '\t\t"the output (std, json)",\n\t)\n}\n'), [
            ("option", 4, "F", "--out", "the output (std, json) (default std)"),
        ]),
        ("tests/test_cli.py", PYTHON, []),
        ("README.md", PYTHON, []),
    ],
)  # fmt: skip
def test_what_the_sources_name_as_settings(
    path: str, text: str, found: list[tuple[str, int, str, str, str]]
) -> None:
    assert settings(path, text) == found
