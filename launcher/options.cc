// The only file that includes CLI11, which is slow to compile.
#include "launcher/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#ifndef PACKAGE_VERSION
#include "config.h"
#endif

extern char** environ;

namespace weft::launcher {
namespace {

/// What one part of the command line (between `:`) says.
struct Part {
  long ranks = -1;
  std::string folder;
  std::vector<std::string> exported, set, genv, env, mca, envlist, genvlist;
  std::string bind, map, rank_by, hosts, hostfile, input = "0", output, signals;
  long per_node = 0;
  double timeout = 0;
  bool tag = false, stamp = false, verbose = false, version = false, report_bindings = false;
  bool envall = false, envnone = false, genvnone = false, ignored = false;
};

constexpr char torch[] = "torch";           // --env torch
constexpr char two_words[] = "NAME VALUE";  // normalise() joins them to NAME=VALUE

/// Options that take a value are declared once; every spelling works with one and with two dashes (see normalise()).
void declare(CLI::App& app, Part& part) {
  app.prefix_command();
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_flag("-V,--version", part.version, "Print the version and exit");
  app.add_option("-n,--np,--n,-c", part.ranks, "Number of ranks (default: one for each usable CPU)")
      ->type_name("N")
      ->check(CLI::Range(1l, 1l << 24));
  app.add_flag("-l,--tag-output,--prepend-rank", part.tag, "Head each line of output with [rank]");
  app.add_flag("--timestamp-output", part.stamp, "Head each line of output with date and time");
  app.add_option("--output", part.output, "What to do with output: tag, timestamp, dir=DIR (a file a rank as well), nocopy (there only)")
      ->type_name("WISH,...");
  app.add_option("--wdir,--wd,--workdir", part.folder, "Working directory of the ranks")->type_name("DIR");
  app.add_option("-x", part.exported, "Set a variable in the ranks' environment, or pass mpirun's value on")
      ->type_name("VAR[=VALUE]")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--genv", part.genv, "Set a variable in the ranks of all programs")
      ->type_name(two_words)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--env", part.env, "Set a variable in the ranks of this program; --env torch: set what torchrun sets (RANK, ...)")
      ->type_name(two_words)
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--envall,--genvall", part.envall, "Ranks inherit mpirun's environment (the default)");
  app.add_flag("--envnone", part.envnone, "The ranks of this program inherit nothing");
  app.add_flag("--genvnone", part.genvnone, "No rank inherits anything");
  app.add_option("--envlist", part.envlist, "The ranks of this program inherit these variables only")
      ->type_name("VAR,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--genvlist", part.genvlist, "All ranks inherit these variables only")
      ->type_name("VAR,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--set", part.set, "Set a variable of Weft (see weft info)")->type_name("VAR=VALUE")->take_all()->allow_extra_args(false);
  app.add_option("--timeout", part.timeout, "End the job after so many seconds, and show where its ranks are")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_option("--forward-signals", part.signals, "Accepted; USR1, USR2, TSTP, CONT, ALRM, ABRT and those that end always are")
      ->type_name("LIST");
  app.add_option("--stdin", part.input, "Who reads mpirun's input: a rank (default 0), all or none")->type_name("RANK|all|none");
  app.add_flag("-v,--verbose", part.verbose, "Say what is being done");
  app.add_flag("--oversubscribe,--allow-run-as-root,--get-stack-traces,--use-hwthread-cpus", part.ignored, "Accepted; this is always so");
  app.add_option("--bind-to", part.bind, "Binding of ranks to CPUs: none; anything else is warned about, not done yet")->type_name("WHAT");
  app.add_option("--map-by", part.map, "Accepted on one host; not done yet")->type_name("WHAT");
  app.add_option("--rank-by", part.rank_by, "Accepted on one host; not done yet")->type_name("WHAT");
  app.add_flag("--report-bindings", part.report_bindings, "Accepted; ranks are not bound yet");
  app.add_option("-N,--ppn,--npernode", part.per_node, "Ranks per host")->type_name("N")->check(CLI::Range(1l, 1l << 24));
  app.add_option("-H,--host,--hosts", part.hosts, "Only this host for now")->type_name("HOSTS");
  app.add_option("-f,--hostfile,--machinefile", part.hostfile, "Not there yet")->type_name("FILE");
  app.add_option("--mca,--gmca,--prtemca", part.mca, "A setting of another MPI: ignored with a warning")
      ->type_name(two_words)
      ->take_all()
      ->allow_extra_args(false);
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
    for (const std::string& name : option->get_snames()) names.push_back(name);
  }
  return names;
}

/// -np 4, -tag-output: a long name behind a single dash gets its second one; --n and --l lose theirs. Stops at the program.
std::vector<std::string> normalise(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size(); i++) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      result.insert(result.end(), words.begin() + long(i), words.end());
      break;
    }
    const std::string bare = word.substr(word[1] == '-' ? 2 : 1);
    const std::string name = bare.substr(0, bare.find('='));
    const CLI::Option* found = nullptr;
    for (const CLI::Option* option : app.get_options())
      if (name.size() > 1 ? option->check_lname(name) : option->check_sname(name)) found = option;
    if (!found) {
      result.insert(result.end(), words.begin() + long(i), words.end());
      break;
    }
    if (name.size() == 1 && bare.size() > 1) {  // -n=4
      result.push_back("-" + name);
      result.push_back(bare.substr(2));
      continue;
    }
    result.push_back((name.size() > 1 ? "--" : "-") + bare);
    const bool two = found->get_type_name() == two_words;
    if (bare.size() > name.size() || found->get_items_expected_max() == 0 || i + 1 >= words.size()) continue;
    result.push_back(words[++i]);
    // -env NAME VALUE, -env NAME=VALUE, --env torch
    const bool whole = result.back().find('=') != std::string::npos || (name == "env" && result.back() == torch);
    if (two && !whole && i + 1 < words.size()) result.back() += "=" + words[++i];
  }
  return result;
}

/// Letters to insert, remove, replace, or to swap with their neighbour.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); j++) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); i++)
    for (size_t j = 1; j <= b.size(); j++) {
      d[i][j] = std::min({d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), d[i - 1][j] + 1, d[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string unknown_option(const CLI::App& app, const std::string& word) {
  std::string bare = word.substr(word.find_first_not_of('-') == std::string::npos ? 0 : word.find_first_not_of('-'));
  bare = bare.substr(0, bare.find('='));
  std::string nearest;
  size_t least = 2;  // more changes make another word
  for (const std::string& name : names_of(app)) {
    if (name.size() < 2) continue;
    const bool begun = bare.size() >= 3 && name.starts_with(bare);  // --time for --timeout
    const size_t far = begun ? 0 : distance(bare, name);
    if (far > least || (far == least && (nearest.empty() || name.size() >= nearest.size()))) continue;
    least = far;
    nearest = name;
  }
  return "unknown option " + word + (nearest.empty() ? "" : "; did you mean --" + nearest + "?") + " (mpirun --help lists them)";
}

bool is_here(const std::string& hosts) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::stringstream list(hosts);
  for (std::string host; std::getline(list, host, ',');) {
    host = host.substr(0, host.find(':'));
    if (host != "localhost" && host != "127.0.0.1" && host != "::1" && host != name) return false;
  }
  return true;
}

std::string capitals(std::string text) {
  for (char& c : text) c = c == '.' || c == '-' ? '_' : char(toupper(static_cast<unsigned char>(c)));
  return text;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

/// What holds for the ranks of all programs.
struct Global {
  Variables variables;
  Inherit inherit = Inherit::all;
  std::vector<std::string> listed;
  std::vector<std::string> mca;
};

/// -x VAR, -x VAR=VALUE, -x VAR,VAR, -x PREFIX*; a complaint if malformed.
std::string exported(const std::string& entry, Variables& variables, std::vector<std::string>& warnings) {
  std::stringstream list(entry);
  for (std::string item; std::getline(list, item, entry.find('=') == std::string::npos ? ',' : '\0');) {
    const size_t equals = item.find('=');
    if (equals == 0 || item.empty()) return "-x needs VAR or VAR=VALUE, not \"" + entry + "\"";
    if (equals != std::string::npos) {
      variables.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    } else if (item.back() == '*') {
      const std::string start = item.substr(0, item.size() - 1);
      for (char** v = environ; *v; v++)
        if (const std::string text = *v; text.starts_with(start) && text.find('=') != std::string::npos)
          variables.emplace_back(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    } else if (const char* value = getenv(item.c_str())) {
      variables.emplace_back(item, value);
    } else {
      warnings.push_back("-x " + item + ": there is no such variable to pass on");
    }
  }
  return {};
}

/// NAME=VALUE, as normalise() makes it of two words.
std::string assigned(const char* option, const std::string& entry, Variables& variables) {
  const size_t equals = entry.find('=');
  if (equals == 0 || equals == std::string::npos) return std::string(option) + " needs a variable and a value, not \"" + entry + "\"";
  variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  return {};
}

/// Fills the environment of an app, and of all; a complaint if something is malformed. -x and --set of the first part hold for all.
std::string variables_of(const Part& part, bool first, App& app, Global& global, Parsed& parsed) {
  Variables& here = first ? global.variables : app.variables;
  std::string wrong;
  for (const std::string& entry : part.genv)
    if (wrong = assigned("-genv", entry, global.variables); !wrong.empty()) return wrong;
  for (const std::string& entry : part.exported)
    if (wrong = exported(entry, here, parsed.warnings); !wrong.empty()) return wrong;
  for (const std::string& entry : part.set) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return "--set needs VAR=VALUE, not \"" + entry + "\"";
    std::string name = capitals(entry.substr(0, equals));
    if (name.rfind("WEFT_", 0) != 0) name = "WEFT_" + name;
    here.emplace_back(name, entry.substr(equals + 1));
  }
  for (const std::string& entry : part.env) {
    if (entry == torch)
      parsed.options.torch = true;
    else if (wrong = assigned("-env", entry, app.variables); !wrong.empty())
      return wrong;
  }
  return {};
}

/// Who inherits what: -genv... for all, -env... for this app, which says it last.
void inheritance_of(const Part& part, App& app, Global& global) {
  if (part.genvnone) global.inherit = Inherit::none;
  if (!part.genvlist.empty()) {
    global.inherit = Inherit::listed;
    global.listed.insert(global.listed.end(), part.genvlist.begin(), part.genvlist.end());
  }
  if (part.envnone) app.inherit = Inherit::none;
  if (!part.envlist.empty()) {
    app.inherit = Inherit::listed;
    app.listed = part.envlist;
  }
}

void warn_of(const Part& part, std::vector<std::string>& warnings) {
  if (!part.bind.empty() && part.bind != "none")
    warnings.push_back("--bind-to " + part.bind + " is not there yet: ranks are not bound, the kernel places them");
  if (!part.map.empty() && part.map.find("oversubscribe") == std::string::npos && part.map != "slot" && part.map != "node")
    warnings.push_back("--map-by " + part.map + " has no effect on one host yet");
  if (!part.rank_by.empty() && part.rank_by != "slot") warnings.push_back("--rank-by " + part.rank_by + " has no effect on one host yet");
  if (part.report_bindings) warnings.push_back("--report-bindings: ranks are not bound");
}

std::string refusal_of(const Part& part) {
  if (!part.hostfile.empty()) return "--hostfile is not there yet: this mpirun starts ranks on its own host only";
  if (!part.hosts.empty() && !is_here(part.hosts))
    return "--host " + part.hosts + ": this mpirun starts ranks on its own host only; leave the option out or name localhost";
  if (part.per_node && part.ranks > part.per_node)
    return "-n " + std::to_string(part.ranks) + " ranks with " + std::to_string(part.per_node) + " per host need more than one host";
  return {};
}

/// Reads --stdin and --output; a complaint if malformed.
std::string streams_of(const Part& part, Options& all) {
  if (part.input == "all") {
    all.input = InputTo::all;
  } else if (part.input == "none") {
    all.input = InputTo::none;
  } else if (part.input != "0") {
    char* end;
    const unsigned long rank = strtoul(part.input.c_str(), &end, 10);
    if (part.input.empty() || !isdigit(static_cast<unsigned char>(part.input[0])) || *end || rank >= 1u << 24)
      return "--stdin takes a rank, all or none, not \"" + part.input + "\"";
    all.input_rank = uint32_t(rank);
  }
  std::stringstream list(part.output);
  for (std::string wish; std::getline(list, wish, ',');) {
    const std::string value = wish.find('=') == std::string::npos ? "" : wish.substr(wish.find('=') + 1);
    if (wish == "tag")
      all.output.tag = true;
    else if (wish == "timestamp")
      all.output.timestamp = true;
    else if (wish == "nocopy")
      all.output.copy = false;
    else if (wish.starts_with("dir=") && !value.empty())
      all.output.folder = value;
    else
      return "--output takes tag, timestamp, dir=DIR and nocopy, joined by commas; not \"" + wish + "\"";
  }
  return {};
}

Parsed wrong(const std::string& text) {
  Parsed parsed;
  parsed.exit_code = exit_usage;
  parsed.text = text;
  return parsed;
}

/// Adds one part to the options; false with `parsed` complete if the run ends here.
bool add_part(const std::vector<std::string>& words, uint32_t default_ranks, Global& global, Parsed& parsed) {
  CLI::App cli(
      "Runs a program as the ranks of an MPI job: mpirun [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]] ...\n"
      "Long options work with one and with two dashes.",
      "mpirun");
  Part part;
  declare(cli, part);
  std::vector<std::string> arguments = normalise(cli, words);
  std::reverse(arguments.begin(), arguments.end());
  try {
    cli.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    parsed.text = cli.help();
    return false;
  } catch (const CLI::ParseError& error) {
    parsed = wrong(error.what());
    return false;
  }
  if (part.version) {
    parsed.text = "mpirun (Weft) " PACKAGE_VERSION "\n";
    return false;
  }
  App app;
  app.command = cli.remaining();
  if (!app.command.empty() && app.command[0] == "--") app.command.erase(app.command.begin());
  std::string complaint;
  if (app.command.empty())
    complaint = "no program given. Usage: mpirun -n N PROGRAM [ARGUMENTS]";
  else if (app.command[0].size() > 1 && app.command[0][0] == '-')
    complaint = unknown_option(cli, app.command[0]);
  if (complaint.empty()) complaint = refusal_of(part);
  if (complaint.empty()) complaint = variables_of(part, parsed.options.apps.empty(), app, global, parsed);
  if (complaint.empty()) complaint = streams_of(part, parsed.options);
  if (!complaint.empty()) {
    parsed = wrong(complaint);
    return false;
  }
  app.ranks = part.ranks > 0 ? uint32_t(part.ranks) : part.per_node ? uint32_t(part.per_node) : default_ranks;
  app.folder = part.folder;
  inheritance_of(part, app, global);
  for (const std::string& setting : part.mca) global.mca.push_back(setting.substr(0, setting.find('=')));
  Options& all = parsed.options;
  all.apps.push_back(std::move(app));
  all.output.tag |= part.tag;
  all.output.timestamp |= part.stamp;
  all.verbose |= part.verbose;
  if (part.timeout > 0) all.timeout_s = part.timeout;
  warn_of(part, parsed.warnings);
  return true;
}

void apply(const Global& global, App& app) {
  app.variables.insert(app.variables.begin(), global.variables.begin(), global.variables.end());
  if (app.inherit != Inherit::all) return;
  app.inherit = global.inherit;
  app.listed = global.listed;
}

/// One line, however many there are: callers write them by the dozen.
std::string about_mca(const std::vector<std::string>& names) {
  std::string text = "--mca";
  for (size_t i = 0; i < names.size(); i++) text += (i ? ", " : " ") + names[i];
  return text + (names.size() == 1 ? ": a setting" : ": settings") + " of another MPI, ignored (weft info lists Weft's, --set sets them)";
}

}  // namespace

Parsed parse(const std::vector<std::string>& words, uint32_t default_ranks) {
  Parsed parsed;
  Global global;
  auto from = words.begin();
  for (;;) {
    const auto to = std::find(from, words.end(), ":");
    const bool several = to != words.end() || from != words.begin();
    if (!add_part({from, to}, several ? 1 : default_ranks, global, parsed)) return parsed;
    if (to == words.end()) break;
    from = to + 1;
  }
  for (App& app : parsed.options.apps) apply(global, app);
  if (!global.mca.empty()) parsed.warnings.push_back(about_mca(global.mca));
  const Options& all = parsed.options;
  if (all.input == InputTo::one && all.input_rank >= all.ranks())
    return wrong("--stdin " + std::to_string(all.input_rank) + ": the job has ranks 0 to " + std::to_string(all.ranks() - 1));
  if (!all.output.copy && all.output.folder.empty()) return wrong("--output nocopy needs dir=DIR: else the output would be lost");
  parsed.options.command_line = "mpirun";
  for (const std::string& word : words) parsed.options.command_line += " " + word;
  if (parsed.options.ranks() > 1u << 24) return wrong("too many ranks");
  parsed.run = true;
  return parsed;
}

}  // namespace weft::launcher
