// Package etcd keeps a store in an etcd cluster, which several control planes may share.
//
//	log, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{"https://10.0.0.1:2379"}, TLS: tls})
//	…
//	s, err := store.Open(store.Config{Shared: log})
//
// An object is the value of the key <prefix>/<resource>/<namespace>/<name>, or <prefix>/<resource>/<name>, as JSON; its revision is the
// key's modification revision. A unit of writes is one transaction that compares the revisions of all its keys. The store's view follows
// one watch of the prefix. A consistent read asks the cluster's quorum for its revision, many readers at once, and waits until
// the watch has come so far; where the newest writes were not below the prefix, the watch is asked for its progress.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
)

// Config says where the cluster is.
type Config struct {
	// Endpoints are URLs of its members.
	Endpoints []string
	// Prefix is that of all keys; "" means "/registry".
	Prefix string
	// TLS is how to trust the members and to be trusted; nil where the endpoints are http.
	TLS *tls.Config
	// Timeout is how long the cluster may take to be reached at first, and each of its answers; 0 means ten seconds.
	Timeout time.Duration
}

// Log is a [store.Shared] in a cluster. It is safe for concurrent use.
type Log struct {
	client  *clientv3.Client
	prefix  string // with a slash at its end
	timeout time.Duration

	watching context.Context // of all watches, so that their progress can be asked for
	end      context.CancelFunc
	applied  atomic.Uint64                      // the revision that the watch has come to
	stop     atomic.Pointer[context.CancelFunc] // ends the present watch; nil: there is none

	asking sync.Mutex
	ask    *question // that has not been sent yet; nil: none
	busy   bool      // one is under way

	reads, writes histogram.Histogram
}

// Stats implements [store.Measured]. Operations are named as etcd's own clients do.
func (l *Log) Stats() store.BackendStats {
	return store.BackendStats{Requests: map[string]histogram.Counts{"get": l.reads.Read(), "txn": l.writes.Read()}}
}

// question is one request for the cluster's revision, of all who need one.
type question struct {
	done     chan struct{}
	revision uint64
	err      error
}

const defaultPrefix = "/registry"

// Open connects to a cluster. It fails when none of its members answers in time.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = defaultPrefix
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		DialTimeout:          cfg.Timeout,
		DialKeepAliveTime:    10 * time.Second, // a member that is gone without a word is noticed
		DialKeepAliveTimeout: 5 * time.Second,
		MaxCallSendMsgSize:   16 << 20,
		MaxCallRecvMsgSize:   1 << 30,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	l := &Log{client: client, prefix: "/" + strings.Trim(cfg.Prefix, "/") + "/", timeout: cfg.Timeout}
	l.watching, l.end = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	if _, err := l.newest(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("reach etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), reason(cfg, err))
	}
	return l, nil
}

// reason looks for a better one than that there was no answer in time, which is all that a client of gRPC says of certificates.
func reason(cfg Config, err error) error {
	for _, endpoint := range cfg.Endpoints {
		u, parse := url.Parse(endpoint)
		if parse != nil || u.Scheme != "https" {
			continue
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: cfg.TLS}
		conn, failed := dialer.Dial("tcp", u.Host)
		if failed != nil {
			return failed
		}
		conn.Close()
	}
	return err
}

// Close implements [store.Shared].
func (l *Log) Close() error {
	l.end()
	if err := l.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd client: %w", err)
	}
	return nil
}

// Path is the key in etcd of an object.
func (l *Log) Path(k store.Key) string {
	if k.Namespace == "" {
		return l.prefix + k.Resource + "/" + k.Name
	}
	return l.prefix + k.Resource + "/" + k.Namespace + "/" + k.Name
}

// parse reads a key; ok is false for one that is not of an object.
func (l *Log) parse(key []byte) (k store.Key, ok bool) {
	rest, ok := strings.CutPrefix(string(key), l.prefix)
	if !ok {
		return k, false
	}
	switch parts := strings.Split(rest, "/"); len(parts) {
	case 2:
		k = store.Key{Resource: parts[0], Name: parts[1]}
	case 3:
		k = store.Key{Resource: parts[0], Namespace: parts[1], Name: parts[2]}
	}
	return k, k.Resource != "" && k.Name != ""
}

// Objects are read in pages. A page that does not come in time is asked for again with fewer, and with the fewest once.
const page, smallestPage = 5000, 50

// Load implements [store.Shared].
func (l *Log) Load(ctx context.Context, each func(store.Record) error) (revision uint64, err error) {
	from, limit := l.prefix, int64(page)
	for {
		answer, err := l.page(ctx, from, limit, revision)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && limit > smallestPage {
			limit = max(limit/10, smallestPage)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read etcd: %w", err)
		}
		if revision == 0 {
			revision = uint64(answer.Header.Revision)
		}
		for _, kv := range answer.Kvs {
			k, ok := l.parse(kv.Key)
			if !ok {
				continue // not ours
			}
			if err := each(store.Record{Key: k, Revision: uint64(kv.ModRevision), Created: uint64(kv.CreateRevision), Data: kv.Value}); err != nil {
				return 0, err
			}
		}
		if !answer.More || len(answer.Kvs) == 0 {
			l.advance(revision)
			return revision, nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}

// page reads objects from a key on, at a revision; 0 is the newest.
func (l *Log) page(ctx context.Context, from string, limit int64, revision uint64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(l.prefix)), clientv3.WithLimit(limit)}
	if revision > 0 {
		opts = append(opts, clientv3.WithRev(int64(revision)))
	}
	answer, err := l.client.Get(ctx, from, opts...)
	if err != nil {
		return nil, inTime(ctx, err)
	}
	return answer, plausible(answer.Header.Revision, 0)
}

// inTime is err, or that the time is over: clients of gRPC say so in words of their own.
func inTime(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// ErrWentBack says that the cluster has a lower revision than it had: it was restored from a backup, or a member answers by itself. What is in memory
// is no state of this cluster.
var ErrWentBack = errors.New("the revision of etcd went back: after a restore from a backup its control planes must be restarted")

// plausible checks the revision of an answer against one that the cluster had before it was asked.
func plausible(revision int64, before uint64) error {
	if revision <= 0 {
		return fmt.Errorf("%w: it says %d", ErrWentBack, revision)
	}
	if uint64(revision) < before {
		return fmt.Errorf("%w: it says %d after %d", ErrWentBack, revision, before)
	}
	return nil
}

// advance notes how far the view has come.
func (l *Log) advance(revision uint64) {
	for {
		have := l.applied.Load()
		if have >= revision || l.applied.CompareAndSwap(have, revision) {
			return
		}
	}
}

// Follow implements [store.Shared].
func (l *Log) Follow(ctx context.Context, after uint64, apply func(uint64, []store.Record)) error {
	// The context carries no values of its caller: all watches share one stream, whose progress can be asked for.
	watching, cancel := context.WithCancel(l.watching)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	l.stop.Store(&cancel)
	answers := l.client.Watch(watching, l.prefix, clientv3.WithPrefix(), clientv3.WithRev(int64(after)+1), clientv3.WithProgressNotify())
	for answer := range answers {
		switch err := answer.Err(); {
		case answer.CompactRevision > 0:
			return store.ErrCompacted
		case err != nil:
			return fmt.Errorf("watch etcd: %w", err)
		case plausible(answer.Header.Revision, 0) != nil:
			return fmt.Errorf("watch etcd: %w", plausible(answer.Header.Revision, 0))
		case answer.IsProgressNotify():
			revision := uint64(answer.Header.Revision)
			apply(revision, nil)
			l.advance(revision)
			continue
		}
		l.each(answer.Events, apply)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("watch etcd: the watch ended")
}

// each applies the events of an answer, which are whole transactions, one by one.
func (l *Log) each(events []*clientv3.Event, apply func(uint64, []store.Record)) {
	for len(events) > 0 {
		revision := events[0].Kv.ModRevision
		var records []store.Record
		for len(events) > 0 && events[0].Kv.ModRevision == revision {
			e := events[0]
			events = events[1:]
			k, ok := l.parse(e.Kv.Key)
			if !ok {
				continue
			}
			r := store.Record{Key: k, Revision: uint64(revision), Created: uint64(e.Kv.CreateRevision)}
			if e.Type == clientv3.EventTypePut {
				r.Data = e.Kv.Value
			}
			records = append(records, r)
		}
		apply(uint64(revision), records)
		l.advance(uint64(revision))
	}
}

// Commit implements [store.Shared].
func (l *Log) Commit(ctx context.Context, ops []store.Op) (revision uint64, ok bool, err error) {
	var compare []clientv3.Cmp
	writes := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		key := l.Path(op.Key)
		if strings.Contains(op.Key.Namespace, "/") || strings.Contains(op.Key.Name, "/") || strings.Contains(op.Key.Resource, "/") {
			return 0, false, fmt.Errorf("%w: %q is no key for etcd", store.ErrMalformed, key)
		}
		switch {
		case op.Data == nil && op.Expect == 0:
			revision, err := l.Current(ctx) // nothing can be deleted that must not be there
			return revision, false, err
		case op.Data == nil && op.Expect == store.AnyRevision:
			compare = append(compare, clientv3.Compare(clientv3.CreateRevision(key), ">", 0))
		case op.Expect != store.AnyRevision:
			compare = append(compare, clientv3.Compare(clientv3.ModRevision(key), "=", int64(op.Expect)))
		}
		if op.Data == nil {
			writes[i] = clientv3.OpDelete(key)
		} else {
			writes[i] = clientv3.OpPut(key, string(op.Data))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	start := time.Now()
	answer, err := l.client.Txn(ctx).If(compare...).Then(writes...).Commit()
	l.writes.Since(start)
	switch {
	case errors.Is(err, rpctypes.ErrDuplicateKey):
		return 0, false, fmt.Errorf("%w: a key twice in one unit", store.ErrMalformed)
	case err != nil:
		return 0, false, fmt.Errorf("write etcd: %w", err)
	}
	if err := plausible(answer.Header.Revision, 0); err != nil {
		return 0, false, fmt.Errorf("write etcd: %w", err)
	}
	return uint64(answer.Header.Revision), answer.Succeeded, nil
}

// Current implements [store.Shared]. One question to the cluster answers all who asked before it was sent.
func (l *Log) Current(ctx context.Context) (uint64, error) {
	l.asking.Lock()
	if l.ask == nil {
		l.ask = &question{done: make(chan struct{})}
	}
	q := l.ask
	if !l.busy {
		l.busy = true
		go l.answer()
	}
	l.asking.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if q.err == nil && q.revision > l.applied.Load() {
		go l.hurry(q.revision)
	}
	return q.revision, q.err
}

// answer sends questions until there is none.
func (l *Log) answer() {
	for {
		l.asking.Lock()
		q := l.ask
		l.ask = nil
		if q == nil {
			l.busy = false
			l.asking.Unlock()
			return
		}
		l.asking.Unlock()
		q.revision, q.err = l.newest(l.watching)
		close(q.done)
	}
}

// newest asks the quorum.
func (l *Log) newest(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	defer l.reads.Since(time.Now())
	before := l.applied.Load()
	answer, err := l.client.Get(ctx, l.prefix, clientv3.WithCountOnly())
	if err == nil {
		err = plausible(answer.Header.Revision, before)
	}
	if err != nil {
		return 0, fmt.Errorf("ask etcd: %w", err)
	}
	return uint64(answer.Header.Revision), nil
}

// hurry asks the watch for its progress until it has come to a revision, which events alone do not bring about when others write
// elsewhere in the cluster. Most often they do, so they get a moment first. A watch that makes no progress in the time of an answer is ended, so that
// another one begins, perhaps at another member: a member may answer everything else and have forgotten its watches.
func (l *Log) hurry(revision uint64) {
	stop, from, end := l.stop.Load(), l.applied.Load(), time.Now().Add(l.timeout)
	for wait := 5 * time.Millisecond; l.applied.Load() < revision; wait = min(2*wait, 200*time.Millisecond) {
		select {
		case <-l.watching.Done():
			return
		case <-time.After(wait):
		}
		if now := l.applied.Load(); now > from {
			from, end = now, time.Now().Add(l.timeout)
		} else if stop != nil && time.Now().After(end) {
			(*stop)() // of no effect if there is another one by now
			stop, end = l.stop.Load(), time.Now().Add(l.timeout)
		}
		if l.applied.Load() < revision {
			l.client.RequestProgress(l.watching) // an error is a stream that is being made anew
		}
	}
}

// Compact forgets what happened before a revision, in the whole cluster.
func (l *Log) Compact(ctx context.Context, revision uint64) error {
	_, err := l.client.Compact(ctx, int64(revision))
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// CompactEvery forgets, at an interval, what happened before the last time, until ctx ends. One of those who share the cluster should do it.
func (l *Log) CompactEvery(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for before := uint64(0); ; {
		if now, err := l.newest(ctx); err == nil { // what can't be done now can be done next time
			if before > 0 {
				l.Compact(ctx, before)
			}
			before = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
