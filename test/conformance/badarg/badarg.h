/* What the generated calls of badarg.c are made of: good values of each kind, and the judgement of what a call returned. */
#ifndef BADARG_H
#define BADARG_H

#include <limits.h>
#include <mpi.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Values that calls accept; the out_ members are places for results. */
extern struct Good {
  char buffer1[4096], buffer2[4096], buffer3[4096], text[16384], word[64];
  void* pointer;
  int ints[64], ones[64], ranges[4][3];
  MPI_Aint aints[64];
  MPI_Count counts[64], large_ones[64];
  int out_ints[64];
  MPI_Aint out_aints[64];
  MPI_Count out_counts[64];
  MPI_Offset out_offsets[64];
  MPI_Status statuses[16];
  MPI_Datatype types[64], uncommitted;
  MPI_Request request, requests[64];
  MPI_Info info, infos[64];
  MPI_Group group;
  MPI_Session session;
  MPI_Comm cart, graph, dist_graph;
  MPI_Request partitioned_send, partitioned_receive;           /* of two partitions, started */
  MPI_Request general;                                         /* a generalized request, not complete */
  MPI_Errhandler communicator_errh, session_errh, window_errh; /* of one kind of object each */
  int keyval, type_keyval, win_keyval, freed_keyval;
  char pvar_name[256];
  MPI_T_event_registration eventreg;
  MPI_T_enum tenum;
  MPI_T_cvar_handle cvar, freed_cvar;
  MPI_T_pvar_session psession, freed_psession;
  MPI_T_pvar_handle freed_pvar;
  MPI_T_event_registration freed_eventreg;
  MPI_Comm freed_comm;
  MPI_Group freed_group;
  MPI_Datatype freed_type;
  MPI_Op freed_op;
  MPI_Request freed_request;
  MPI_Info freed_info;
  MPI_Errhandler freed_errh;
  MPI_Session freed_session;
  MPI_Message freed_message;
  MPI_Comm out_comm;
  MPI_Group out_group;
  MPI_Datatype out_type, out_types[64];
  MPI_Op out_op;
  MPI_Request out_request;
  MPI_Message out_message;
  MPI_Info out_info;
  MPI_Errhandler out_errh;
  MPI_Session out_session;
  MPI_Win out_win;
  MPI_File out_file;
} good;

extern char too_long[];
void good_function(void);

MPI_Comm* fresh_comm(void);
MPI_Request* fresh_request(void);
MPI_Message* fresh_message(void);
MPI_Win* fresh_win(void);
MPI_File* fresh_file(void);

/* A good handle of each kind of object in turn, but for those of the type that is named; null after the last. */
extern void* wrong;
void* next_wrong(const char* but);
#define EACH_WRONG(type) while ((wrong = next_wrong(#type)) != NULL)

void test_all(void);

extern sigjmp_buf escape;
/* Remembers what is being tried, for the reports of crashes and hangs. */
void trying(const char* function, const char* argument, const char* call);
/* The call must have returned an error of class `wanted`, whose text names the function and the argument. */
void judge(int returned, int wanted);
void judge_crash(int signal);

#define TRY(function, argument, wanted, call) \
  do {                                        \
    trying(function, argument, #call);        \
    const int signal = sigsetjmp(escape, 1);  \
    if (signal)                               \
      judge_crash(signal);                    \
    else                                      \
      judge(call, wanted);                    \
  } while (0)

#endif
