/* Signals of the program are handled by its own threads: none of the store's threads takes one. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_t main_thread;
static volatile sig_atomic_t here, elsewhere;

static void handle(int number) {
    (void)number;
    if (pthread_equal(pthread_self(), main_thread)) {
        here++;
    } else {
        elsewhere++;
    }
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    struct sigaction action;
    sigset_t before, after, blocked;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    CHECK(sigaction(SIGTERM, &action, NULL) == 0);
    main_thread = pthread_self();
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    evendb_db *db = opened(below(directory, "db"));
    evendb_keyspace *keyspace = default_of(db);
    /* The caller's own signals are as they were. */
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    CHECK(sigismember(&before, SIGTERM) == 0 && sigismember(&after, SIGTERM) == 0);

    /* While this thread takes none, only threads of the store could. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    char *value = calloc(1, 10000);
    for (int round = 0; round < 30; round++) {
        CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
        CHECK(kill(getpid(), SIGTERM) == 0);
        for (int number = 0; number < 50; number++) {
            char key[16];
            sprintf(key, "%d", number * 31 % 50);
            OK(evendb_put(keyspace, T(key), value, 10000, E));
        }
        if (round % 10 == 0) {
            OK(evendb_flush(db, E));
            evendb_trace *trace;
            char name[16];
            sprintf(name, "trace%d", round);
            OK(evendb_trace_start(db, below(directory, name), 0, 0, 0, &trace, E));
            evendb_trace_free(trace);
        }
        CHECK(elsewhere == 0 && here == round);
        CHECK(pthread_sigmask(SIG_UNBLOCK, &blocked, NULL) == 0);
        CHECK(here == round + 1);
    }
    /* Calls that a signal interrupts are made again. */
    action.sa_flags = 0;
    struct sigaction alarm_action = action;
    CHECK(sigaction(SIGALRM, &alarm_action, NULL) == 0);
    ualarm(200, 200);
    for (int number = 0; number < 300; number++) {
        OK(evendb_put(keyspace, T("k"), value, 10000, E));
        if (number % 30 == 0) {
            OK(evendb_persist(db, E));
        }
    }
    OK(evendb_flush(db, E));
    OK(evendb_close(db, E));
    ualarm(0, 0);
    CHECK(elsewhere == 0);
    free(value);
    evendb_keyspace_free(keyspace);
    evendb_free(db);
    return ended();
}
