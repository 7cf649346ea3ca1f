// An RDMA device that there is not: queue pairs of one process that send each other messages through a shared receive queue, and that
// lose what mlx5 loses when one of them is destroyed. One thread only.
#pragma once

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "runtime/net/verbs_library.h"

namespace weft::test {

class FakeVerbs {
 public:
  struct Received {
    uint64_t id;
    std::byte* at;
  };
  struct Queue : ibv_cq {
    std::deque<ibv_wc> done;
  };
  struct Receives : ibv_srq {
    std::deque<Received> posted;
  };
  struct Pair : ibv_qp {
    uint32_t partner = 0;
    ibv_qp_state now = IBV_QPS_RESET;
    uint32_t flow_label = 0;
    std::deque<Received> coming;  ///< slots of messages that are not whole
  };

  static inline uint32_t most_receives = 128;
  static inline uint64_t unready = 0;  ///< messages that found no slot
  static inline std::map<uint32_t, Pair*> pairs;
  static inline uint32_t next_number = 1;

  /// The pair takes a slot, as at the first packet of a message, and nothing more comes.
  static void begin_message(Pair& pair) {
    auto& posted = static_cast<Receives*>(pair.srq)->posted;
    pair.coming.push_back(posted.front());
    posted.pop_front();
  }

  static net::VerbsLibrary library() {
    net::VerbsLibrary verbs{};
    list_and_open(verbs);
    verbs.reg_mr = [](ibv_pd*, void*, size_t, int) { return new ibv_mr{}; };
    verbs.dereg_mr = [](ibv_mr* mr) { return delete mr, 0; };
    verbs.create_comp_channel = [](ibv_context*) {
      auto* made = new ibv_comp_channel{};
      made->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      return made;
    };
    verbs.destroy_comp_channel = [](ibv_comp_channel* channel) { return ::close(channel->fd), delete channel, 0; };
    verbs.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
    verbs.get_async_event = [](ibv_context*, ibv_async_event*) { return -1; };
    queues(verbs);
    return verbs;
  }

 private:
  static void list_and_open(net::VerbsLibrary& verbs) {
    verbs.get_device_list = [](int* count) {
      static ibv_device device{};
      static ibv_device* list[] = {&device, nullptr};
      return *count = 1, list;
    };
    verbs.free_device_list = [](ibv_device**) {};
    verbs.get_device_name = [](ibv_device*) { return "fake0"; };
    verbs.open_device = [](ibv_device*) {
      auto* made = new ibv_context{};
      made->async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      made->ops.poll_cq = poll;
      made->ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
      made->ops.post_srq_recv = receive;
      made->ops.post_send = send;
      return made;
    };
    verbs.close_device = [](ibv_context* context) { return ::close(context->async_fd), delete context, 0; };
    verbs.query_device = [](ibv_context*, ibv_device_attr* limits) {
      *limits = {};
      limits->max_srq_wr = int(most_receives);
      limits->max_cqe = 1 << 16;
      limits->max_qp_rd_atom = limits->max_qp_init_rd_atom = 16;
      return 0;
    };
    verbs.query_port = [](ibv_context*, uint8_t, ibv_port_attr* port) { return port->state = IBV_PORT_ACTIVE, 0; };
    verbs.port_state_str = [](ibv_port_state) { return "active"; };
    verbs.wc_status_str = [](ibv_wc_status) { return "an error"; };
    verbs.alloc_pd = [](ibv_context* context) { return new ibv_pd{context, 0}; };
    verbs.dealloc_pd = [](ibv_pd* domain) { return delete domain, 0; };
  }

  static void queues(net::VerbsLibrary& verbs) {
    verbs.create_cq = [](ibv_context* context, int size, void*, ibv_comp_channel*, int) -> ibv_cq* {
      auto* made = new Queue{};
      made->context = context;
      made->cqe = size;
      return made;
    };
    verbs.resize_cq = [](ibv_cq* queue, int size) { return queue->cqe = size, 0; };
    verbs.destroy_cq = [](ibv_cq* queue) { return delete static_cast<Queue*>(queue), 0; };
    verbs.create_srq = [](ibv_pd* domain, ibv_srq_init_attr*) -> ibv_srq* {
      auto* made = new Receives{};
      made->context = domain->context;
      return made;
    };
    verbs.destroy_srq = [](ibv_srq* receives) { return delete static_cast<Receives*>(receives), 0; };
    verbs.create_qp = [](ibv_pd* domain, ibv_qp_init_attr* wish) -> ibv_qp* {
      auto* made = new Pair{};
      made->context = domain->context;
      made->send_cq = wish->send_cq;
      made->recv_cq = wish->recv_cq;
      made->srq = wish->srq;
      made->qp_num = next_number++;
      return pairs[made->qp_num] = made;
    };
    verbs.modify_qp = [](ibv_qp* qp, ibv_qp_attr* to, int what) {
      auto* pair = static_cast<Pair*>(qp);
      if (what & IBV_QP_DEST_QPN) pair->partner = to->dest_qp_num;
      if (what & IBV_QP_AV) pair->flow_label = to->ah_attr.grh.flow_label;
      pair->now = to->qp_state;
      if (pair->now == IBV_QPS_ERR)
        for (; !pair->coming.empty(); pair->coming.pop_front()) arrive(*pair, pair->coming.front().id, IBV_WC_WR_FLUSH_ERR, {}, 0);
      return 0;
    };
    verbs.destroy_qp = [](ibv_qp* qp) {
      auto* pair = static_cast<Pair*>(qp);
      std::erase_if(static_cast<Queue*>(qp->recv_cq)->done, [&](const ibv_wc& each) { return each.qp_num == qp->qp_num; });
      pairs.erase(qp->qp_num);
      return delete pair, 0;
    };
  }

  static int poll(ibv_cq* cq, int most, ibv_wc* out) {
    auto& done = static_cast<Queue*>(cq)->done;
    int n = 0;
    for (; n < most && !done.empty(); ++n, done.pop_front()) out[n] = done.front();
    return n;
  }

  static int receive(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
    auto& posted = static_cast<Receives*>(srq)->posted;
    for (; request; request = request->next) {
      if (posted.size() == most_receives) return *bad = request, ENOMEM;
      posted.push_back({request->wr_id, reinterpret_cast<std::byte*>(request->sg_list->addr)});
    }
    return 0;
  }

  static void arrive(Pair& pair, uint64_t id, ibv_wc_status status, uint32_t word, uint32_t bytes) {
    ibv_wc end{};
    end.wr_id = id;
    end.status = status;
    end.opcode = IBV_WC_RECV;
    end.byte_len = bytes;
    end.imm_data = word;
    end.qp_num = pair.qp_num;
    static_cast<Queue*>(pair.recv_cq)->done.push_back(end);
  }

  static void report(ibv_qp& qp, const ibv_send_wr& request, ibv_wc_opcode what) {
    ibv_wc end{};
    end.wr_id = request.wr_id;
    end.opcode = what;
    end.qp_num = qp.qp_num;
    static_cast<Queue*>(qp.send_cq)->done.push_back(end);
  }

  static int send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr**) {
    for (; request; request = request->next) {
      const auto to = pairs.find(static_cast<Pair*>(qp)->partner);
      if (to == pairs.end() || to->second->now == IBV_QPS_ERR) continue;  // as if a cable had been pulled
      Pair& there = *to->second;
      if (request->opcode == IBV_WR_RDMA_WRITE) {  // of nothing: only acknowledged
        report(*qp, *request, IBV_WC_RDMA_WRITE);
        continue;
      }
      auto& posted = static_cast<Receives*>(there.srq)->posted;
      if (posted.empty()) {
        ++unready;
        continue;
      }
      const Received slot = posted.front();
      posted.pop_front();
      uint32_t bytes = 0;
      for (int i = 0; i < request->num_sge; bytes += request->sg_list[i++].length)
        memcpy(slot.at + bytes, reinterpret_cast<const void*>(request->sg_list[i].addr), request->sg_list[i].length);
      arrive(there, slot.id, IBV_WC_SUCCESS, request->imm_data, bytes);
      if (request->send_flags & IBV_SEND_SIGNALED) report(*qp, *request, IBV_WC_SEND);
    }
    return 0;
  }
};

}  // namespace weft::test
