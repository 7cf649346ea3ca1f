// Which hosts are near each other: the switches between them, as a file tells.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace weft::topo {

/// A tree of switches. Read from lines as those of Slurm's topology.conf, which may be given as it is:
///
///     SwitchName=leaf1 Nodes=n[1-4]
///     SwitchName=leaf2 Nodes=n[5-8],m1
///     SwitchName=top Switches=leaf[1-2]
///
/// or from what ibnetdiscover or lldpctl writes (fabric.h). `#` begins a comment, a line that ends in `\` goes on in the next one,
/// LinkSpeed= is accepted and not used.
class Network {
 public:
  /// Most switches above each other.
  static constexpr size_t kLevels = 4;

  /// `file` is for messages, which name the line.
  static Result<Network> parse(std::string_view text, const std::string& file);
  /// Reads the file, of at most 16 MiB, too.
  static Result<Network> read(const std::string& file);

  /// Reads a file and gives its lines as text() does, for one variable of all ranks of a job; fails if they are too many for that.
  static Result<std::string> lines_for_all(const std::string& file);

  /// The switches above a host, the nearest first; none above one that the file does not name. Hosts go by their name, or by what it has
  /// before its first dot. Fails where more than kLevels are above each other, as in a circle.
  Result<std::vector<std::string>> above(std::string_view host) const;

  /// The first hosts that it names, in the file's order, each once; at most `most`.
  std::vector<std::string> hosts(size_t most) const;

  /// Its lines as parse() reads them, without comments: what has been found in a fabric, too.
  std::string text() const;

 private:
  struct Switch {
    std::string name, nodes, switches;
    size_t line;
  };
  /// Which switch names something first: those without ranges are looked up, so that thousands of hosts can be.
  struct Index {
    std::unordered_map<std::string, size_t> plain;
    std::vector<std::pair<std::string, size_t>> ranges;
    void add(std::string_view list, size_t at);
    size_t find(std::string_view name) const;  // kNone: nobody
  };
  static constexpr size_t kNone = ~size_t{0};
  static Result<Switch> parse_line(std::string_view line);

  std::vector<Switch> switches_;
  Index of_nodes_, of_switches_;
  std::string file_;
};

}  // namespace weft::topo
