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

namespace weft::launcher {
namespace {

/// What one part of the command line (between `:`) says.
struct Part {
  long ranks = -1;
  std::string folder;
  std::vector<std::string> exported, set, genv, env, mca;
  std::string bind, map, rank_by, hosts, hostfile, input = "0";
  long per_node = 0;
  double timeout = 0;
  bool tag = false, verbose = false, version = false, report_bindings = false;
  bool ignored = false;
};

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
  app.add_option("--wdir,--wd,--workdir", part.folder, "Working directory of the ranks")->type_name("DIR");
  app.add_option("-x", part.exported, "Set a variable in the ranks' environment, or pass mpirun's value on")
      ->type_name("VAR[=VALUE]")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--genv,--env", part.genv, "The same in two words")->type_name(two_words)->take_all()->allow_extra_args(false);
  app.add_option("--set", part.set, "Set a variable of Weft (see weft info)")->type_name("VAR=VALUE")->take_all()->allow_extra_args(false);
  app.add_option("--timeout", part.timeout, "End the job after so many seconds")->type_name("SECONDS")->check(CLI::PositiveNumber);
  app.add_option("--stdin", part.input, "Who reads mpirun's input: 0 (default) or none")->type_name("RANK");
  app.add_flag("-v,--verbose", part.verbose, "Say what is being done");
  app.add_flag("--oversubscribe,--allow-run-as-root,--use-hwthread-cpus,--genvall,--envall", part.ignored, "Accepted; this is always so");
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
    if (two && i + 1 < words.size()) result.back() += "=" + words[++i];
  }
  return result;
}

size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string unknown_option(const CLI::App& app, const std::string& word) {
  std::string bare = word.substr(word.find_first_not_of('-') == std::string::npos ? 0 : word.find_first_not_of('-'));
  bare = bare.substr(0, bare.find('='));
  std::string nearest;
  size_t least = 3;
  for (const std::string& name : names_of(app))
    if (name.size() > 1 && distance(bare, name) < least) least = distance(bare, nearest = name);
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

/// Fills the environment of an app; a complaint if something is malformed.
std::string variables_of(const Part& part, App& app) {
  for (const std::string& entry : part.exported) {
    std::stringstream list(entry);
    for (std::string item; std::getline(list, item, entry.find('=') == std::string::npos ? ',' : '\0');) {
      const size_t equals = item.find('=');
      if (equals == 0 || item.empty()) return "-x needs VAR or VAR=VALUE, not \"" + entry + "\"";
      if (equals != std::string::npos)
        app.variables.emplace_back(item.substr(0, equals), item.substr(equals + 1));
      else if (const char* value = getenv(item.c_str()))
        app.variables.emplace_back(item, value);
    }
  }
  for (const std::string& entry : part.genv) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) return "-genv needs a variable and a value, not \"" + entry + "\"";
    app.variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  for (const std::string& entry : part.set) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return "--set needs VAR=VALUE, not \"" + entry + "\"";
    std::string name = capitals(entry.substr(0, equals));
    if (name.rfind("WEFT_", 0) != 0) name = "WEFT_" + name;
    app.variables.emplace_back(name, entry.substr(equals + 1));
  }
  return {};
}

void warn_of(const Part& part, std::vector<std::string>& warnings) {
  if (!part.bind.empty() && part.bind != "none")
    warnings.push_back("--bind-to " + part.bind + " is not there yet: ranks are not bound, the kernel places them");
  if (!part.map.empty() && part.map.find("oversubscribe") == std::string::npos && part.map != "slot" && part.map != "node")
    warnings.push_back("--map-by " + part.map + " has no effect on one host yet");
  if (!part.rank_by.empty() && part.rank_by != "slot") warnings.push_back("--rank-by " + part.rank_by + " has no effect on one host yet");
  if (part.report_bindings) warnings.push_back("--report-bindings: ranks are not bound");
  if (!part.mca.empty())
    warnings.push_back("--mca " + part.mca[0] + " is a setting of another MPI: ignored (Weft's are listed by weft info)");
}

std::string refusal_of(const Part& part) {
  if (!part.hostfile.empty()) return "--hostfile is not there yet: this mpirun starts ranks on its own host only";
  if (!part.hosts.empty() && !is_here(part.hosts))
    return "--host " + part.hosts + ": this mpirun starts ranks on its own host only; leave the option out or name localhost";
  if (part.per_node && part.ranks > part.per_node)
    return "-n " + std::to_string(part.ranks) + " ranks with " + std::to_string(part.per_node) + " per host need more than one host";
  if (part.input != "0" && part.input != "none") return "--stdin takes 0 or none, not \"" + part.input + "\"";
  return {};
}

Parsed wrong(const std::string& text) {
  Parsed parsed;
  parsed.exit_code = exit_usage;
  parsed.text = text;
  return parsed;
}

/// Adds one part to the options; false with `parsed` complete if the run ends here.
bool add_part(const std::vector<std::string>& words, uint32_t default_ranks, Parsed& parsed) {
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
  if (complaint.empty()) complaint = variables_of(part, app);
  if (!complaint.empty()) {
    parsed = wrong(complaint);
    return false;
  }
  app.ranks = part.ranks > 0 ? uint32_t(part.ranks) : part.per_node ? uint32_t(part.per_node) : default_ranks;
  app.folder = part.folder;
  Options& all = parsed.options;
  all.apps.push_back(std::move(app));
  all.tag_output |= part.tag;
  all.verbose |= part.verbose;
  if (part.timeout > 0) all.timeout_s = part.timeout;
  if (part.input == "none") all.input = InputTo::none;
  warn_of(part, parsed.warnings);
  return true;
}

}  // namespace

Parsed parse(const std::vector<std::string>& words, uint32_t default_ranks) {
  Parsed parsed;
  auto from = words.begin();
  for (;;) {
    const auto to = std::find(from, words.end(), ":");
    const bool several = to != words.end() || from != words.begin();
    if (!add_part({from, to}, several ? 1 : default_ranks, parsed)) return parsed;
    if (to == words.end()) break;
    from = to + 1;
  }
  if (parsed.options.apps.size() > 1) {  // --set and -x of the first part hold for all, as users of several parts expect of globals
    for (size_t a = 1; a < parsed.options.apps.size(); a++) {
      App& app = parsed.options.apps[a];
      const auto& global = parsed.options.apps[0].variables;
      app.variables.insert(app.variables.begin(), global.begin(), global.end());
    }
  }
  if (parsed.options.ranks() > 1u << 24) return wrong("too many ranks");
  parsed.run = true;
  return parsed;
}

}  // namespace weft::launcher
