/* Calls each MPI function with each argument wrong in turn, under MPI_ERRORS_RETURN, in a process of its own. Nothing may crash or
   hang, the error class must be the standard's, and the text must name the function and the argument. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "badarg.h"

struct Good good;
char too_long[MPI_MAX_INFO_VAL + MPI_MAX_INFO_KEY + 2];
sigjmp_buf escape;
void* wrong;

static const char *function, *argument, *call;
static int passed, failed;

void good_function(void) {}

MPI_Comm* fresh_comm(void) {
  static MPI_Comm handle;
  handle = MPI_COMM_WORLD;
  return &handle;
}
MPI_Request* fresh_request(void) {
  static MPI_Request handle;
  handle = good.request;
  return &handle;
}
MPI_Message* fresh_message(void) {
  static MPI_Message handle;
  handle = MPI_MESSAGE_NO_PROC;
  return &handle;
}
MPI_Win* fresh_win(void) {
  static MPI_Win handle;
  handle = MPI_WIN_NULL;
  return &handle;
}
MPI_File* fresh_file(void) {
  static MPI_File handle;
  handle = MPI_FILE_NULL;
  return &handle;
}

static struct Kind {
  const char* type;
  void* handle;
} kinds[10];
static int kind_count, next_kind;

static void add_kind(const char* type, void* handle) {
  kinds[kind_count].type = type;
  kinds[kind_count++].handle = handle;
}

void* next_wrong(const char* but) {
  while (next_kind < kind_count && !strcmp(kinds[next_kind].type, but)) ++next_kind;
  if (next_kind < kind_count) return kinds[next_kind++].handle;
  next_kind = 0;
  return NULL;
}

static void report(const char* what) {
  ++failed;
  if (failed <= 200) printf("%s (argument %s): %s\n    %s\n", function, *argument ? argument : "-", what, call);
}

void trying(const char* f, const char* a, const char* c) {
  function = f;
  argument = a;
  call = c;
  alarm(10);
}

static const char* name_of_class(int error_class, char* room) {
  int length = 0;
  if (MPI_Error_string(error_class, room, &length) != MPI_SUCCESS) return "no error class";
  char* end = strchr(room, ':');
  if (end) *end = 0;
  return room;
}

void judge(int returned, int wanted) {
  alarm(0);
  char text[MPI_MAX_ERROR_STRING] = "", line[2 * MPI_MAX_ERROR_STRING + 64], name1[MPI_MAX_ERROR_STRING], name2[MPI_MAX_ERROR_STRING];
  int length = 0, error_class = -1;
  const int tool = wanted >= MPI_T_ERR_CANNOT_INIT && wanted <= MPI_T_ERR_PVAR_NO_ATOMIC; /* codes of their own, without texts */
  if (tool && returned == wanted) {
    ++passed;
    return;
  }
  if (returned == MPI_SUCCESS) {
    snprintf(line, sizeof line, "was accepted, %s expected", name_of_class(wanted, name1));
    report(line);
    return;
  }
  MPI_Error_string(returned, text, &length);
  MPI_Error_class(returned, &error_class);
  if (error_class != wanted) {
    snprintf(line, sizeof line, "%s, but %s expected (%.300s)", name_of_class(error_class, name1), name_of_class(wanted, name2), text);
    report(line);
  } else if (!strstr(text, function)) {
    snprintf(line, sizeof line, "the text does not name the function: %s", text);
    report(line);
  } else if (!strstr(text, argument)) {
    snprintf(line, sizeof line, "the text does not name the argument: %s", text);
    report(line);
  } else {
    ++passed;
  }
}

void judge_crash(int signal) {
  alarm(0);
  report(signal == SIGALRM ? "no end within 10 s" : strsignal(signal));
}

static void caught(int signal) { siglongjmp(escape, signal); }

static void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = caught;
  action.sa_flags = SA_NODEFER;
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) sigaction(signals[i], &action, NULL);
}

static void user_function(void* in, void* inout, int* len, MPI_Datatype* type) { (void)in, (void)inout, (void)len, (void)type; }
static void user_handler(MPI_Comm* comm, int* code, ...) { (void)comm, (void)code; }

static void session_handler(MPI_Session* session, int* code, ...) { (void)session, (void)code; }
static void win_handler(MPI_Win* win, int* code, ...) { (void)win, (void)code; }
static int query(void* state, MPI_Status* status) { return (void)state, MPI_Status_set_elements(status, MPI_INT, 0); }
static int release(void* state) { return (void)state, MPI_SUCCESS; }
static int cancel(void* state, int complete) { return (void)state, (void)complete, MPI_SUCCESS; }

static void prepare(void) {
  memset(too_long, 'x', sizeof too_long - 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &good.session);
  for (int i = 0; i < 64; ++i)
    good.types[i] = MPI_INT, good.requests[i] = MPI_REQUEST_NULL, good.infos[i] = MPI_INFO_NULL, good.ones[i] = 1, good.large_ones[i] = 1;
  MPI_Type_contiguous(3, MPI_INT, &good.uncommitted);
  MPI_Comm_group(MPI_COMM_WORLD, &good.group);
  MPI_Info_create(&good.info);
  MPI_Cart_create(MPI_COMM_SELF, 1, good.ones, good.ints, 0, &good.cart);
  MPI_Graph_create(MPI_COMM_SELF, 1, good.ones, good.ints, 0, &good.graph);
  MPI_Dist_graph_create(MPI_COMM_SELF, 1, good.ints, good.ones, good.ints, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &good.dist_graph);
  MPI_Recv_init(good.buffer1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &good.request);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &good.keyval, NULL);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &good.type_keyval, NULL);
  MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &good.win_keyval, NULL);
  MPI_Psend_init(good.buffer1, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &good.partitioned_send);
  MPI_Precv_init(good.buffer2, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &good.partitioned_receive);
  MPI_Start(&good.partitioned_send);
  MPI_Start(&good.partitioned_receive);
  MPI_Grequest_start(query, release, cancel, NULL, &good.general);
  MPI_Comm_create_errhandler(user_handler, &good.communicator_errh);
  MPI_Session_create_errhandler(session_handler, &good.session_errh);
  MPI_Win_create_errhandler(win_handler, &good.window_errh);
}

static void make_kinds(void) {
  MPI_Op op;
  MPI_Request request;
  MPI_Message message;
  MPI_Op_create(user_function, 1, &op);
  MPI_Isend(good.buffer1, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
  MPI_Mprobe(0, 1, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  add_kind("MPI_Comm", good.cart);
  add_kind("MPI_Group", good.group);
  add_kind("MPI_Datatype", good.uncommitted);
  add_kind("MPI_Op", op);
  add_kind("MPI_Request", good.request);
  add_kind("MPI_Info", good.info);
  add_kind("MPI_Errhandler", good.communicator_errh);
  add_kind("MPI_Session", good.session);
  add_kind("MPI_Message", message);
}

static void make_tools(void) {
  int count;
  MPI_T_pvar_session_create(&good.psession);
  MPI_T_cvar_handle_alloc(0, NULL, &good.cvar, &count);
  MPI_T_cvar_handle cvar;
  MPI_T_cvar_handle_alloc(0, NULL, &cvar, &count);
  good.freed_cvar = cvar;
  MPI_T_cvar_handle_free(&cvar);
  MPI_T_pvar_handle pvar;
  MPI_T_pvar_handle_alloc(good.psession, 0, NULL, &pvar, &count);
  good.freed_pvar = pvar;
  MPI_T_pvar_handle_free(good.psession, &pvar);
  MPI_T_pvar_session session;
  MPI_T_pvar_session_create(&session);
  good.freed_psession = session;
  MPI_T_pvar_session_free(&session);
  int length = sizeof good.pvar_name;
  MPI_T_pvar_get_info(0, good.pvar_name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  MPI_T_cvar_get_num(&count);
  for (int i = 0; i < count && good.tenum == MPI_T_ENUM_NULL; ++i)
    MPI_T_cvar_get_info(i, NULL, NULL, NULL, NULL, &good.tenum, NULL, NULL, NULL, NULL);
  MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &good.eventreg);
  MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &good.freed_eventreg);
  MPI_T_event_handle_free(good.freed_eventreg, NULL, NULL);
}

/* Handles that were good once. */
static void make_freed(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  good.freed_comm = comm;
  MPI_Comm_free(&comm);
  MPI_Group group;
  MPI_Group_incl(good.group, 1, good.ints, &group);
  good.freed_group = group;
  MPI_Group_free(&group);
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  good.freed_type = type;
  MPI_Type_free(&type);
  MPI_Op op;
  MPI_Op_create(user_function, 1, &op);
  good.freed_op = op;
  MPI_Op_free(&op);
  MPI_Request request;
  MPI_Send_init(good.buffer1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  good.freed_request = request;
  MPI_Request_free(&request);
  MPI_Info info;
  MPI_Info_create(&info);
  good.freed_info = info;
  MPI_Info_free(&info);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(user_handler, &handler);
  good.freed_errh = handler;
  MPI_Errhandler_free(&handler);
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  good.freed_session = session;
  MPI_Session_finalize(&session);
  MPI_Message message;
  MPI_Isend(good.buffer1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
  MPI_Mprobe(0, 0, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
  good.freed_message = message;
  MPI_Mrecv(good.buffer2, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &good.freed_keyval, NULL);
  int keyval = good.freed_keyval;
  MPI_Comm_free_keyval(&keyval);
}

int main(int argc, char** argv) {
  int provided;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  prepare();
  make_kinds();
  make_tools();
  make_freed();
  catch_signals();
  test_all();
  printf("result: %d bad arguments, %d answered well, %d not\n", passed + failed, passed, failed);
  MPI_Comm_free(&good.cart);
  MPI_Comm_free(&good.graph);
  MPI_Comm_free(&good.dist_graph);
  MPI_Session_finalize(&good.session);
  MPI_Finalize();
  MPI_T_finalize();
  return failed != 0;
}
