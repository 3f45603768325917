/*
 * WiredTiger as plain functions. Its own interface is structs of function pointers, whose places
 * differ from version to version, and variadic calls; the compiler that reads the installed header
 * gets both right, so this file holds all that touches them and nothing else. `wiredtiger.rs` is
 * its only caller and keeps these rules:
 *
 *   - a session belongs to one thread at a time, and is closed before its connection;
 *   - what is lent (a key, a value, a text of an error) lives until the session's next call;
 *   - after each get, seek and begin, whatever they returned, comes a release (or a commit).
 *
 * All return 0 or an error of WiredTiger's or the system's.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <wiredtiger.h>

_Static_assert(WT_ROLLBACK == -31800, "wiredtiger.rs knows it by this number");
_Static_assert(WT_NOTFOUND == -31803, "wiredtiger.rs knows it by this number");

#define TABLE "table:records"

/* A session, its one cursor, and what has to be undone before another call may use them. */
struct session {
    WT_SESSION *session;
    WT_CURSOR *cursor;
    int in_transaction;
    int positioned;
};

/* Bytes that are lent. */
struct lent {
    const void *bytes;
    size_t length;
};

int evendb_wt_open(const char *home, const char *config, WT_CONNECTION **connection) {
    WT_SESSION *session;
    int error = wiredtiger_open(home, NULL, config, connection);
    if (error != 0)
        return error;
    error = (*connection)->open_session(*connection, NULL, NULL, &session);
    if (error == 0)
        error = session->create(session, TABLE, "key_format=u,value_format=u");
    if (error == 0)
        error = session->close(session, NULL);
    if (error != 0)
        (void)(*connection)->close(*connection, NULL);
    return error;
}

int evendb_wt_close(WT_CONNECTION *connection) {
    return connection->close(connection, NULL);
}

int evendb_wt_session_open(WT_CONNECTION *connection, struct session **opened) {
    struct session *own = calloc(1, sizeof(*own));
    int error;
    if (own == NULL)
        return ENOMEM;
    error = connection->open_session(connection, NULL, "isolation=snapshot", &own->session);
    if (error == 0)
        error = own->session->open_cursor(own->session, TABLE, NULL, NULL, &own->cursor);
    if (error != 0) {
        if (own->session != NULL)
            (void)own->session->close(own->session, NULL);
        free(own);
        return error;
    }
    *opened = own;
    return 0;
}

int evendb_wt_session_close(struct session *own) {
    int error = own->session->close(own->session, NULL);
    free(own);
    return error;
}

/* The text of an error, for a session or without one; without one by one thread at a time. */
const char *evendb_wt_error(struct session *own, int error) {
    return own == NULL ? wiredtiger_strerror(error) : own->session->strerror(own->session, error);
}

const char *evendb_wt_version(void) {
    return wiredtiger_version(NULL, NULL, NULL);
}

static void set_key(struct session *own, const void *key, size_t length) {
    WT_ITEM item;
    memset(&item, 0, sizeof(item));
    item.data = key;
    item.size = length;
    own->cursor->set_key(own->cursor, &item);
}

static int lend(struct session *own, struct lent *key, struct lent *value) {
    WT_ITEM item;
    int error;
    if (key != NULL) {
        if ((error = own->cursor->get_key(own->cursor, &item)) != 0)
            return error;
        key->bytes = item.data;
        key->length = item.size;
    }
    if ((error = own->cursor->get_value(own->cursor, &item)) != 0)
        return error;
    value->bytes = item.data;
    value->length = item.size;
    return 0;
}

/* Lends a key's value, or says WT_NOTFOUND. */
int evendb_wt_get(struct session *own, const void *key, size_t length, struct lent *value) {
    int error;
    own->positioned = 1;
    set_key(own, key, length);
    error = own->cursor->search(own->cursor);
    return error != 0 ? error : lend(own, NULL, value);
}

/* A write: within the transaction that was begun, else in one of its own. */
int evendb_wt_put(struct session *own, const void *key, size_t key_length, const void *value,
    size_t value_length) {
    WT_ITEM item;
    memset(&item, 0, sizeof(item));
    item.data = value;
    item.size = value_length;
    set_key(own, key, key_length);
    own->cursor->set_value(own->cursor, &item);
    /* Leaves the cursor without a position, so there is nothing to release. */
    return own->cursor->insert(own->cursor);
}

/* A removal, as `evendb_wt_put`; of an absent key is no error. */
int evendb_wt_delete(struct session *own, const void *key, size_t length) {
    set_key(own, key, length);
    return own->cursor->remove(own->cursor);
}

/* Lends the first record at or after a key of a snapshot that lasts until the release, or says
 * WT_NOTFOUND. An empty key, which WiredTiger does not have, stands for the start. */
int evendb_wt_seek(struct session *own, const void *from, size_t length, struct lent *key,
    struct lent *value) {
    int error, place = 0;
    if ((error = own->session->begin_transaction(own->session, NULL)) != 0)
        return error;
    own->in_transaction = 1;
    own->positioned = 1;
    if (length == 0) {
        error = own->cursor->next(own->cursor);
    } else {
        set_key(own, from, length);
        error = own->cursor->search_near(own->cursor, &place);
        /* It stands on a neighbour, on whichever side. */
        if (error == 0 && place < 0)
            error = own->cursor->next(own->cursor);
    }
    return error != 0 ? error : lend(own, key, value);
}

/* Lends the record after the last one of a seek, or says WT_NOTFOUND. */
int evendb_wt_next(struct session *own, struct lent *key, struct lent *value) {
    int error = own->cursor->next(own->cursor);
    return error != 0 ? error : lend(own, key, value);
}

int evendb_wt_begin(struct session *own) {
    int error = own->session->begin_transaction(own->session, NULL);
    own->in_transaction = error == 0;
    return error;
}

/* Ends the transaction: a commit that fails has rolled back. */
int evendb_wt_commit(struct session *own) {
    own->in_transaction = 0;
    return own->session->commit_transaction(own->session, NULL);
}

/* Gives up the position, with the pages that it pins, and the transaction if there is one. */
int evendb_wt_release(struct session *own) {
    int reset = 0, rollback = 0;
    if (own->positioned)
        reset = own->cursor->reset(own->cursor);
    if (own->in_transaction)
        rollback = own->session->rollback_transaction(own->session, NULL);
    own->positioned = 0;
    own->in_transaction = 0;
    return reset != 0 ? reset : rollback;
}

int evendb_wt_checkpoint(struct session *own) {
    return own->session->checkpoint(own->session, NULL);
}
