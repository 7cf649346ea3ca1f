// What people, schedulers and foreign launchers write.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "btl/wrap/plan.h"
#include "coll/ledger.h"
#include "coll/machine.h"
#include "coll/wish.h"
#include "launcher/options.h"
#include "launcher/place/config_file.h"
#include "launcher/place/hosts.h"
#include "launcher/place/rankfile.h"
#include "launcher/place/words.h"
#include "launcher/stacks.h"
#include "launcher/tree/shape.h"
#include "runtime/boot/job_record.h"
#include "runtime/boot/pmi/server.h"
#include "runtime/boot/pmi/text.h"
#include "runtime/config/coll_table.h"
#include "runtime/config/config.h"
#include "runtime/net/interfaces.h"
#include "runtime/topo/cpu_set.h"
#include "runtime/topo/network.h"
#include "runtime/topo/node.h"
#include "test/fuzz/fuzz.h"

namespace weft::fuzz {
namespace {

using namespace weft::launcher;

void add_places(Targets& all) {
  using namespace placement;
  all.push_back(
      {"place/hostfile", {"node1 slots=4\nnode2:3 # x\nuser@node[01-04,7] max_slots=2\n", "10.0.0.1\nfd00::1\n"}, [](std::string_view in) {
         (void)parse_hostfile(in, "file");
         (void)parse_sequence(in, "file");
       }});
  all.push_back({"place/hosts", {"node1:2,node2,node[1-3,07]-ib:4", "a[1-2]b[3-4]"}, [](std::string_view in) {
                   (void)parse_hosts(in);
                   (void)expand(in);
                 }});
  all.push_back({"place/rankfile", {"rank 0=node1 slot=0-3\nrank 1=+n0 slot=1:0-1\n"}, [](std::string_view in) {
                   (void)parse_rankfile(in, "file");
                 }});
  all.push_back({"place/configfile", {"-n 2 ./a 'b c' \\\n  d\n# x\n-n 1 \"./b\"\n"}, [](std::string_view in) {
                   (void)parse_config_file(in, "file");
                 }});
  all.push_back({"place/slurm", {"node[1-3,07],gpu2\n2(x3),1", "r[1-2]n[09-10]\n"}, [](std::string_view in) {
                   const size_t line = std::min(in.find('\n'), in.size());
                   (void)tree::parse_slurm(in.substr(0, line), in.substr(std::min(line + 1, in.size())));
                 }});
  all.push_back({"launcher/command-line",
                 {"-n\n2\n./x\ny\n:\n-n\n1\n./z", "--map-by\nppr:2:node\n--bind-to\ncore\n-x\nA=1\n-H\na:2,b\n./x",
                  "-genv\nA\n1\n-ppn\n2\n-outfile-pattern\n%r\n./x"},
                 [](std::string_view in) { (void)parse(split(in, '\n'), 4); }});
  all.push_back(
      {"launcher/debugger",
       {"Thread 1 (LWP 5):\n#0  0x00007f in poll (a=1) from /lib/libc.so\n#1  main () at x.c:5\n", "TID 7:\n#0  0x1 f\n#1  0x2 g\n"},
       [](std::string_view in) {
         for (const Frames& frames : parse_stacks(std::string(in)))
           for (const std::string& frame : frames) (void)function_of(frame);
       }});
}

void add_networks(Targets& all) {
  all.push_back(
      {"topo/network",
       {"SwitchName=s1 Nodes=n[1-4],m[01-10]x\nSwitchName=s2 Nodes=n[5-8] LinkSpeed=1\nSwitchName=top Switches=s[1-2]\n",
        "switchguid=0x1(1)\nSwitch\t36 \"S-1\" # \"sw\" base\n[1]\t\"H-1\"[1](2) # \"n1 HCA-1\" lid 4\n[2]\t\"S-2\"[1] # \"t\" lid 2\n"
        "\nswitchguid=0x2(2)\nSwitch\t36 \"S-3\" # \"sw\" base\n[2]\t\"S-2\"[2] # \"t\" lid 2\n"
        "\ncaguid=0x1\nCa\t2 \"H-1\" # \"n1 HCA-1\"\n[1](2) \t\"S-1\"[1] # lid 4\n\nCa\t2 \"H-2\" # \"m2\"\n[1](2) \t\"S-3\"[1] # lid 4\n",
        "SwitchName=a Nodes=n[1-2]r[3-4]q[5,6]\\\n\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b # x\n"},
       [](std::string_view in) {
         const auto network = topo::Network::parse(in, "file");
         if (!network) return;
         for (const char* host : {"n1", "m07x", "n1r3q6", "n9.example"}) (void)network->above(host);
         const auto hosts = network->hosts(100);
         need(hosts.size() <= 100, "more hosts than asked for");
         for (const std::string& host : hosts)
           if (const auto above = network->above(host)) need(!above->empty(), "a host that the file names hangs on no switch");
       }});
  all.push_back({"coll/wishes",
                 {"allreduce:64K-1M=ring; bcast = binomial;barrier=node", "reduce:-8=binomial;scan:3G-=chain"},
                 [](std::string_view in) {
                   for (const coll::Wish& wish : coll::Wishes::read(in).all) {
                     need(wish.first < wish.end, "an empty range of sizes");
                     need(coll::Wishes::read(wish.text).all.size() == 1, "an entry cannot be read again");
                   }
                 }});
  all.push_back({"coll/table",
                 {R"({"weft-collectives":1,"runs":[{"date":"d","weft":"1","cpu":"c","ranks":4,"hosts":["a"],"network":[]}],)"
                  R"("machine":{"copy":{"value":0.1,"run":0}},"settings":{"shm.get_from":{"value":65536,"run":0}},)"
                  R"("measurements":[{"collective":"bcast","ranks":4,"hosts":2,"bytes":8,)"
                  R"("run":0,"usual":"chain","ns":{"chain":5,"binomial":4}},{"collective":"bcast","ranks":4,"hosts":2,"bytes":64,)"
                  R"("run":0,"ns":{"chain":3}}]})"},
                 [](std::string_view in) {
                   const auto table = config::CollTable::parse(in);
                   if (!table) return;
                   (void)coll::Wishes::read(table->words(INT32_MAX));
                   need(static_cast<bool>(config::CollTable::parse(table->to_json())), "a table is none when written again");
                   coll::Machine machine;
                   (void)coll::set_fields(machine, table->machine_words());
                 }});
  all.push_back({"coll/ledger", {"7\t0\t2\t0\t0\t7\t4\t1\t1\tring\t2.5\t100\t2000\t4\n"}, [](std::string_view in) {
                   coll::Ledger::Rows rows;
                   coll::Ledger::add(rows, in);
                   coll::Ledger::Rows again;
                   coll::Ledger::add(again, coll::Ledger::to_text(rows, SIZE_MAX));
                   need(again.size() == rows.size(), "lines cannot be read again");
                 }});
  all.push_back({"coll/machine", {"leaf.latency=1500,host_link=0.04", "copy=1e-3"}, [](std::string_view in) {
                   coll::Machine machine;
                   (void)coll::set_fields(machine, in);
                   for (const coll::MachineField& field : coll::machine_fields()) need(field.of(machine) >= 0, "a negative cost");
                 }});
}

/// A server of PMI-1 or PMI-2 that says whatever it likes and then hangs up.
void talk(std::unique_ptr<boot::pmi::Server> (*speak)(int), std::string_view in) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  (void)!write(ends[1], in.data(), in.size());
  shutdown(ends[1], SHUT_WR);
  auto server = speak(ends[0]);
  if (server->greet(1, 4)) {
    (void)server->put("key", "value");
    (void)server->fence();
    (void)server->get("key");
    (void)server->leave();
  }
  server.reset();
  close(ends[0]);
  close(ends[1]);
}

void add_pmi(Targets& all) {
  using namespace boot::pmi;
  all.push_back(
      {"pmi/line", {"cmd=get_result rc=0 value=x", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"}, [](std::string_view in) {
         if (const auto fields = parse_line(in)) (void)parse_line(write_line(*fields)), (void)fields->number("rc", 1);
       }});
  all.push_back({"pmi/record", {"cmd=kvs-get-response;found=TRUE;value=a;;b;rc=0;"}, [](std::string_view in) {
                   (void)record_size(in.substr(0, 6));
                   if (const auto fields = parse_record(in)) (void)parse_record(write_record(*fields)), (void)fields->number("rc", 1);
                 }});
  all.push_back({"pmi/mapping", {"(vector,(0,2,4))", "(vector,(0,1,2),(1,1,1))"}, [](std::string_view in) {
                   if (const auto place = parse_mapping(in, 1, 8))
                     need(place->node_ranks.size() <= 8, "more ranks on a node than there are");
                 }});
  const std::vector<std::byte> value(300, std::byte{'v'});
  std::vector<std::string> pieces;
  if (auto cut_up = cut(1, "btl", value, {}))
    for (const auto& [name, text] : *cut_up) pieces.push_back(text + "\n");
  std::string whole_value;
  for (const std::string& piece : pieces) whole_value += piece;
  pieces.push_back(whole_value);
  all.push_back({"pmi/value", pieces, [](std::string_view in) {
                   Joiner joiner;
                   for (const std::string& piece : placement::split(in, '\n'))
                     if (joiner.complete() || !joiner.add(piece)) break;
                 }});
  all.push_back({"pmi/server-1",
                 {"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\ncmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
                  "cmd=appnum appnum=0\ncmd=my_kvsname kvsname=kvs\ncmd=universe_size size=4\n"
                  "cmd=get_result rc=0 value=(vector,(0,1,4))\ncmd=put_result rc=0\ncmd=barrier_out rc=0\ncmd=get_result rc=0 "
                  "value=v\ncmd=finalize_ack\n"},
                 [](std::string_view in) { talk(speak_pmi1, in); }});
  all.push_back({"pmi/server-2",
                 {"    48cmd=fullinit-response;rank=1;size=4;appnum=0;rc=0;    40cmd=job-getid-response;jobid=job;rc=0;   "},
                 [](std::string_view in) { talk(speak_pmi2, in); }});
}

/// A job's folder that somebody has written into.
Target job_folder() {
  static const std::string root = std::filesystem::temp_directory_path() / ("weft-fuzz-" + std::to_string(getpid()));
  return {"job-folder", {"record\n", "0 1 node ./x\n1 2 node ./x\n", "job=weft-1\nranks=2\n"}, [](std::string_view in) {
            const std::string folder = root + "/" + boot::job_folder_prefix() + "x";
            std::filesystem::create_directories(folder);
            setenv("TMPDIR", root.c_str(), 1);
            boot::JobRecord record;
            record.folder = folder;
            record.launcher = boot::process_name(getpid());
            record.ranks = 2;
            record.command = "mpirun ./x";
            boot::write_record(record);
            boot::write_map(folder, {{0, 1, "node", "./x"}});
            Script script(in);
            for (const auto& entry : std::filesystem::directory_iterator(folder)) {
              if (!entry.is_regular_file()) continue;
              const auto keep = script.number(1) & 1;
              std::ofstream out(entry.path(), keep ? std::ios::app : std::ios::trunc);
              out << script.piece(script.number(2) % 4096);
            }
            (void)boot::list_jobs();
            (void)boot::find_job("1");
            (void)boot::read_map(folder);
            (void)boot::read_messages(folder);
            std::filesystem::remove_all(root);
          }};
}

}  // namespace

void add_texts(Targets& all) {
  add_places(all);
  add_networks(all);
  add_pmi(all);
  all.push_back({"topo/cpus", {"0-3,8,10-11", "0"}, [](std::string_view in) {
                   if (auto set = topo::CpuSet::parse(in)) {
                     const auto again = topo::CpuSet::parse(set->to_string());
                     need(again && again->to_string() == set->to_string(), "a set of CPUs is not what it was when written again");
                   }
                 }});
  all.push_back({"topo/node",
                 {"Package 0-7 8-15\nCore 0,1 2,3\nPU 0 1 2 3\n+gpu 0 0000:1b:00.0 1.5.9 0-55\n+nic eth0 - - -\n"},
                 [](std::string_view in) {
                   auto node = topo::Node::parse(in);
                   if (!node) return;
                   (void)topo::Node::parse(node->to_string());
                   for (const auto& a : node->devices)
                     for (const auto& b : node->devices) (void)topo::nearness(a, b);
                 }});
  all.push_back({"btl/wrap",
                 {"drop=0.01,delay=100us,reorder=0.1,fail_after=1000,seed=7", "delay=1us-5ms,again=0.5"},
                 [](std::string_view in) { (void)btl::wrapping::parse_plan(in); }});
  all.push_back({"net/address", {"10.0.0.0/8", "fd00::1/64", "127.0.0.1"}, [](std::string_view in) {
                   if (const auto address = net::parse_address(in))
                     need(net::parse_address(address->text()).has_value(), "an address is none when written again");
                 }});
  all.push_back({"config/values", {"64K", "yes", "inf", "-1", "1.5G", "eth0,ib*,^lo"}, [](std::string_view in) {
                   std::string why;
                   for (const config::Variable* v = config::all(); v; v = v->next())
                     const_cast<config::Variable*>(v)->set(in, config::Origin::program, &why);
                 }});
  all.push_back(job_folder());
}

}  // namespace weft::fuzz
