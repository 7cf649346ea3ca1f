// The only file that includes CLI11, which is slow to compile.
#include "launcher/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "launcher/environment.h"
#include "launcher/place/config_file.h"
#include "launcher/place/words.h"
#include "launcher/place_options.h"

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
  std::vector<std::string> exported, set, process_sets, genv, env, mca, envlist, genvlist;
  std::string memory_kinds, input = "0", output, output_folder, signals, config_file;
  PlaceWords places;
  std::string launcher, agent, agent_options, out_pattern, error_pattern, interfaces;
  long fan_out = 0;
  double timeout = 0;
  bool tag = false, stamp = false, verbose = false, version = false;
  bool report_paths = false, report_coll = false;
  bool print_exits = false;
  bool envall = false, envnone = false, genvnone = false, ignored = false;
};

constexpr char torch[] = "torch";           // --env torch
constexpr char two_words[] = "NAME VALUE";  // normalise() joins them to NAME=VALUE

void declare_places(CLI::App& app, Part& part) {
  PlaceWords& places = part.places;
  app.add_option("-H,--host,--hosts", places.hosts, "Hosts to run on, each with the ranks that it takes in turn")
      ->type_name("HOST[:N],...");
  app.add_option("-f,--hostfile,--machinefile", places.hostfile, "Hosts, one a line: HOST slots=N max_slots=N, or HOST:N")
      ->type_name("FILE");
  app.add_option("-N,--ppn,--npernode,--perhost", places.per_host, "Ranks on each host")->type_name("N")->check(CLI::Range(1l, 1l << 24));
  app.add_option(
         "--map-by", places.map,
         "Deal ranks to slot (default), node, package, numa, l3cache, l2cache, core, hwthread or ppr:N:UNIT; behind it :PE=N (cores "
         "for each rank), :oversubscribe, :nooversubscribe, :overload-allowed")
      ->type_name("UNIT[:MODIFIER]")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--rank-by", places.rank_by, "Number ranks by slot (default: as they were dealt), node, fill, span or a unit")
      ->type_name("UNIT")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option(
         "--bind-to", places.bind,
         "Bind ranks to none, hwthread, core, l2cache, l3cache, numa or package (:overload-allowed). Default: an equal share of the "
         "cores for each rank, and OMP_NUM_THREADS at least; not bound where these are too few")
      ->type_name("UNIT")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--cpu-set,--cpu-list", places.cpu_set, "Use these CPUs only (the operating system's numbers)")->type_name("LIST");
  app.add_option("--rankfile", places.rankfile, "Where each rank runs: lines of rank N=HOST slot=CORES")->type_name("FILE");
  app.add_option("--cpus-per-proc,--cpus-per-rank", places.cores_each, "Cores for each rank, as --map-by :PE=N")
      ->type_name("N")
      ->check(CLI::Range(1l, 1l << 16));
  app.add_option("--gpus-per-proc,--gpus-per-rank", places.gpus_each,
                 "GPUs for each rank, near its cores, as --map-by :GPU=N (default: all ranks see all GPUs)")
      ->type_name("N")
      ->check(CLI::Range(1l, 1l << 16));
  app.add_flag("--oversubscribe", places.oversubscribe, "Allow more ranks than slots (always so where slots are not given)");
  app.add_flag("--nooversubscribe", places.never_oversubscribe, "Refuse more ranks than slots or cores");
  app.add_flag("--use-hwthread-cpus", places.threads_are_cores, "Count hardware threads as cores");
  app.add_flag("--report-bindings", places.report_bindings, "Say where each rank is bound");
  app.add_option("--display", places.display, "Say where ranks run: map, bind")->type_name("WHAT");
  app.add_flag("--display-map,--print-rank-map", places.display_map, "The same as --display map");
  app.add_flag("--dry-run", places.dry_run, "Draw the map and start nothing");
  app.add_option("--configfile", part.config_file, "Programs and their options, one a line")->type_name("FILE");
}

/// Options that take a value are declared once; every spelling works with one and with two dashes (see normalise()).
void declare(CLI::App& app, Part& part) {
  app.prefix_command();
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_flag("-V,--version", part.version, "Print the version and exit");
  app.add_option("-n,--np,--n,-c", part.ranks, "Number of ranks (default: one for each usable core, or slot)")
      ->type_name("N")
      ->check(CLI::Range(1l, 1l << 24));
  app.add_flag("-l,--tag-output,--prepend-rank", part.tag, "Head each line of output with [rank]");
  app.add_flag("--timestamp-output", part.stamp, "Head each line of output with date and time");
  app.add_option("--output", part.output, "What to do with output: tag, timestamp, dir=DIR (a file a rank as well), nocopy (there only)")
      ->type_name("WISH,...");
  app.add_option("--output-filename", part.output_folder, "The same as --output dir=DIR")->type_name("DIR");
  app.add_option("--outfile-pattern", part.out_pattern, "Files for the ranks' output instead: %r is the rank, %h its host")
      ->type_name("FILE");
  app.add_option("--errfile-pattern", part.error_pattern, "The same for their errors")->type_name("FILE");
  app.add_flag("--report-paths", part.report_paths, "Say which ways messages take within and between hosts, and why");
  app.add_flag("--report-coll", part.report_coll,
               "Say at the end which collectives have run, how often, by which algorithms and why, and how long they took");
  app.add_flag("--print-all-exitcodes", part.print_exits, "Say at the end how each rank ended");
  app.add_option("--iface", part.interfaces, "Use these network interfaces, for launcher and data (as WEFT_NET_INTERFACES)")
      ->type_name("NAME,...");
  app.add_option("--wdir,--wd,--workdir", part.folder, "Working directory of the ranks")->type_name("DIR");
  app.add_option("--pset", part.process_sets, "The ranks of this program are in the process sets (of MPI sessions) of these names")
      ->type_name("NAME,...")
      ->allow_extra_args(false);
  app.add_option("--memory-alloc-kinds", part.memory_kinds, "Kinds of memory that the program asks for (MPI 5.0, 11.4.3)")
      ->type_name("KIND,...");
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
  app.add_option("--stdin,-s", part.input, "Who reads mpirun's input: a rank (default 0), all or none")->type_name("RANK|all|none");
  app.add_flag("-v,--verbose", part.verbose, "Say what is being done");
  app.add_flag("--allow-run-as-root,--get-stack-traces", part.ignored, "Accepted; this is always so");
  declare_places(app, part);
  app.add_option("--launcher,--bootstrap", part.launcher, "What starts the daemons on other hosts: ssh or slurm (default: what is there)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"ssh", "slurm", "rsh"}));
  app.add_option("--launcher-exec,--bootstrap-exec", part.agent, "Program to use instead of ssh, with its options")->type_name("COMMAND");
  app.add_option("--launcher-exec-args,--bootstrap-exec-args", part.agent_options, "Options for ssh, in one word")->type_name("OPTIONS");
  app.add_option("--fanout", part.fan_out, "Daemons that one daemon starts at most")->type_name("N")->check(CLI::Range(1l, 1l << 16));
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

/// Older and shorter words for what other options say.
struct Synonym {
  const char* name;
  const char* option;
  const char* value;
  bool takes_number = false;  ///< which stands for N in the value
};
constexpr Synonym synonyms[] = {{"pernode", "-N", "1"},
                                {"npersocket", "--map-by", "ppr:N:package", true},
                                {"bynode", "--map-by", "node"},
                                {"byslot", "--map-by", "slot"},
                                {"bycore", "--map-by", "core"},
                                {"bysocket", "--map-by", "package"},
                                {"rr", "--map-by", "node"},
                                {"bind-to-none", "--bind-to", "none"},
                                {"bind-to-core", "--bind-to", "core"},
                                {"bind-to-socket", "--bind-to", "package"}};

const Synonym* synonym_of(const std::string& name) {
  const auto found = std::find_if(std::begin(synonyms), std::end(synonyms), [&](const Synonym& s) { return name == s.name; });
  return found == std::end(synonyms) ? nullptr : found;
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
    if (const Synonym* synonym = found ? nullptr : synonym_of(name)) {
      std::string value = synonym->value;
      if (const size_t hole = value.find('N'); synonym->takes_number && hole != value.npos && i + 1 < words.size())
        value.replace(hole, 1, words[++i]);
      result.insert(result.end(), {synonym->option, value});
      continue;
    }
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
    // -env NAME VALUE, -env NAME=VALUE, --env torch, -mca "NAME VALUE" (a caller that quotes too much)
    const bool whole = result.back().find_first_of("= ") != std::string::npos || (name == "env" && result.back() == torch);
    if (two && !whole && i + 1 < words.size()) result.back() += "=" + words[++i];
  }
  return result;
}

std::string unknown_option(const CLI::App& app, const std::string& word) {
  std::string bare = word.substr(word.find_first_not_of('-') == std::string::npos ? 0 : word.find_first_not_of('-'));
  bare = bare.substr(0, bare.find('='));
  std::string nearest;
  size_t least = 2;  // more changes make another word
  for (const std::string& name : names_of(app)) {
    if (name.size() < 2) continue;
    const bool begun = bare.size() >= 3 && name.starts_with(bare);  // --time for --timeout
    const size_t far = begun ? 0 : placement::distance(bare, name);
    if (far > least || (far == least && (nearest.empty() || name.size() >= nearest.size()))) continue;
    least = far;
    nearest = name;
  }
  return "unknown option " + word + (nearest.empty() ? "" : "; did you mean --" + nearest + "?") + " (mpirun --help lists them)";
}

using Variables = std::vector<std::pair<std::string, std::string>>;

/// What holds for the ranks of all programs.
struct Global {
  Variables variables;
  Inherit inherit = Inherit::all;
  std::vector<std::string> listed;
  std::vector<std::string> mca;
  std::vector<std::string> file;  ///< what -configfile names
  bool file_read = false;
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
    here.emplace_back(variable_of(entry.substr(0, equals)), entry.substr(equals + 1));
  }
  for (const std::string& entry : part.env) {
    if (entry == torch)
      parsed.options.torch = true;
    else if (wrong = assigned("-env", entry, app.variables); !wrong.empty())
      return wrong;
  }
  return {};
}

/// The process sets of an app, and the kinds of memory that it asks for; a complaint if a name is not to be had.
std::string mpi_wishes_of(const Part& part, App& app) {
  for (const std::string& names : part.process_sets)
    for (const std::string& name : placement::split(names, ',')) {
      if (name.empty() || name.starts_with("mpi://") || name.starts_with("mpix://"))
        return "--pset \"" + names + "\": names are not empty, and mpi:// and mpix:// begin those that are there anyway";
      app.sets.push_back(name);
    }
  if (!part.memory_kinds.empty()) app.variables.emplace_back("WEFT_MEM_ALLOC_KINDS", part.memory_kinds);
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
  if (!part.output_folder.empty()) all.output.folder = part.output_folder;
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

std::string places_of(const Part& part, Options& all, App& app) {
  auto read = read_places(part.places, all, app);
  return read ? "" : read.failure().text;
}

/// How Open MPI is told to reach other hosts holds here too; all else only has a meaning there.
void take_mca(const std::string& setting, Part& part, Global& global) {
  const size_t end = setting.find_first_of("= ");
  const std::string name = setting.substr(0, end), value = end == std::string::npos ? "" : setting.substr(end + 1);
  if (name == "plm_rsh_args" && !value.empty())
    part.agent_options = value;
  else if (name == "plm_rsh_agent" && !value.empty())
    part.agent = value;
  else
    global.mca.push_back(name);
}

Parsed wrong(const std::string& text) {
  Parsed parsed;
  parsed.exit_code = exit_usage;
  parsed.text = text;
  return parsed;
}

/// Reads the file that -configfile names; a complaint if it cannot be.
std::string words_of_file(const Part& part, const App& app, Global& global) {
  if (!app.command.empty())
    return "-configfile " + part.config_file + " names the programs: leave " + app.command[0] + " out, or the option";
  if (global.file_read) return "-configfile " + part.config_file + ": one is enough";
  auto words = placement::read_config_file(part.config_file);
  if (!words) return words.failure().text;
  global.file = std::move(*words);
  global.file_read = true;
  return {};
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
  const bool by_file = !part.config_file.empty();
  if (by_file)
    complaint = words_of_file(part, app, global);
  else if (app.command.empty())
    complaint = "no program given. Usage: mpirun -n N PROGRAM [ARGUMENTS]";
  else if (app.command[0].size() > 1 && app.command[0][0] == '-')
    complaint = unknown_option(cli, app.command[0]);
  Options& all = parsed.options;
  if (complaint.empty()) complaint = places_of(part, all, app);
  if (complaint.empty()) complaint = variables_of(part, parsed.options.apps.empty(), app, global, parsed);
  if (complaint.empty()) complaint = streams_of(part, all);
  if (complaint.empty()) complaint = mpi_wishes_of(part, app);
  if (!complaint.empty()) {
    parsed = wrong(complaint);
    return false;
  }
  app.ranks = part.ranks > 0 ? uint32_t(part.ranks) : app.per_host ? app.per_host : default_ranks;
  app.folder = part.folder;
  inheritance_of(part, app, global);
  for (const std::string& setting : part.mca) take_mca(setting, part, global);
  if (!by_file) all.apps.push_back(std::move(app));
  all.counted = part.ranks > 0 || all.apps.size() > 1;
  if (!part.launcher.empty()) all.launcher = part.launcher == "rsh" ? "ssh" : part.launcher;
  if (part.launcher == "rsh") all.agent = "rsh";
  if (!part.agent.empty()) all.agent = part.agent;
  if (!part.agent_options.empty()) all.agent = (all.agent.empty() ? "ssh" : all.agent) + " " + part.agent_options;
  if (part.fan_out) all.fan_out = uint32_t(part.fan_out);
  all.output.tag |= part.tag;
  all.output.timestamp |= part.stamp;
  all.verbose |= part.verbose;
  all.report_paths |= part.report_paths;
  all.report_coll |= part.report_coll;
  all.print_exits |= part.print_exits;
  if (!part.interfaces.empty()) all.interfaces = part.interfaces;
  if (!part.out_pattern.empty()) all.output.out_pattern = part.out_pattern;
  if (!part.error_pattern.empty()) all.output.error_pattern = part.error_pattern;
  if (part.timeout > 0) all.timeout_s = part.timeout;
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

/// What the command line sets for Intel's MPI: I_MPI_PIN=0 unbinds the ranks, all else has no effect, which one line says.
std::string about_intel(Options& options) {
  std::vector<std::string> names;
  for (const App& app : options.apps)
    for (const auto& [name, value] : app.variables) {
      const std::string word = placement::lower(value);
      const bool off = word == "0" || word == "no" || word == "off" || word == "disable" || word == "false";
      if (name == "I_MPI_PIN" && off) {
        if (!options.request.bind_to) options.request.bind_to = placement::Unit::node;
      } else if (name.starts_with("I_MPI_") && std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "" : text + (names.size() == 1 ? ": a variable" : ": variables") + " of Intel's MPI, without effect here";
}

}  // namespace

Parsed parse(const std::vector<std::string>& given, uint32_t default_ranks) {
  Parsed parsed;
  Global global;
  std::vector<std::string> words = given;
  auto from = words.begin();
  for (;;) {
    const auto to = std::find(from, words.end(), ":");
    const bool several = to != words.end() || from != words.begin();
    if (!add_part({from, to}, several ? 1 : default_ranks, global, parsed)) return parsed;
    if (to != words.end()) {
      from = to + 1;
    } else if (!global.file.empty()) {
      words = std::exchange(global.file, {});
      from = words.begin();
    } else {
      break;
    }
  }
  for (App& app : parsed.options.apps) apply(global, app);
  if (const std::string foreign = about_intel(parsed.options); !foreign.empty()) parsed.warnings.push_back(foreign);
  if (!global.mca.empty()) parsed.warnings.push_back(about_mca(global.mca));
  const Options& all = parsed.options;
  if ((all.counted || all.request.hosts.empty()) && all.input == InputTo::one && all.input_rank >= all.ranks())
    return wrong("--stdin " + std::to_string(all.input_rank) + ": the job has ranks 0 to " + std::to_string(all.ranks() - 1));
  if (!all.output.copy && all.output.folder.empty()) return wrong("--output nocopy needs dir=DIR: else the output would be lost");
  parsed.options.command_line = "mpirun";
  for (const std::string& word : given) parsed.options.command_line += " " + word;
  if (parsed.options.ranks() > 1u << 24) return wrong("too many ranks");
  parsed.run = true;
  return parsed;
}

}  // namespace weft::launcher
