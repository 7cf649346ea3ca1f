// The programs that bring a daemon to life on another host, and what went wrong when they do not. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/job.h"

namespace weft::launcher::tree {

/// How daemons are started.
enum class How : uint8_t { ssh, slurm };

/// The command that starts a daemon (`program` --daemon) on `host`. `agent`: ssh, or what the user names instead, with its options.
std::vector<std::string> ssh_command(const std::string& agent, const std::string& host, const std::string& program);
/// The command that starts one daemon on each of these hosts of the allocation.
std::vector<std::string> srun_command(const std::vector<std::string>& hosts, const std::string& program);

/// What a daemon exits with when it cannot take part; what it says on stderr is the reason.
constexpr int exit_not_joined = 113;

struct Diagnosis {
  std::string text;    ///< the step that failed, the words of the program that failed, what to try
  bool again = false;  ///< may pass: worth another attempt
};
/// Why a daemon was not there in the end: its starter ended with `status` (exit code, or 128 + signal) after writing `words`.
Diagnosis diagnose(How how, const std::string& host, const std::string& program, int status, const std::string& words);

/// `text` as one word for a shell.
std::string quoted(const std::string& text);

}  // namespace weft::launcher::tree
