// Package etcd is a [store.Shared] in an etcd cluster, which several control planes may share.
//
//	log, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{"https://10.0.0.1:2379"}, TLS: tls})
//	…
//	s, err := store.Open(store.Config{Shared: log})
//
// An object is the JSON value of the key <prefix>/<resource>/<namespace>/<name>, or
// <prefix>/<resource>/<name>. Its revision is the modification revision of the key. A unit of
// writes is one transaction that compares the revisions of all its keys. The store's view follows
// one watch of the prefix.
//
// A consistent read gets the revision of the cluster from its quorum, with one request for all
// waiting readers, and waits until the watch has reached that revision. If the newest writes were
// outside of the prefix, the Log requests a progress notification of the watch.
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

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
)

// Config describes how to reach the cluster.
type Config struct {
	// Endpoints are URLs of its members.
	Endpoints []string
	// Prefix is the prefix of all keys; "" means "/registry".
	Prefix string
	// TLS configures connections to https endpoints; nil for http.
	TLS *tls.Config
	// Timeout limits the first connection, and each request; 0 means ten seconds.
	Timeout time.Duration
	// Failed receives the errors of CompactEvery, which tries again; nil ignores them.
	Failed func(error)
}

// Log is a [store.Shared] in an etcd cluster. It is safe for concurrent use.
type Log struct {
	client  *clientv3.Client
	prefix  string // with a trailing slash
	timeout time.Duration
	failed  func(error)     // or nil
	leaving atomic.Bool     // Leave was called
	gone    context.Context // ends when no member has responded since then
	giveUp  context.CancelFunc

	watching context.Context // context of all watches, shared so that RequestProgress reaches them
	end      context.CancelFunc
	applied  atomic.Uint64                      // the revision that the watch has reached
	stop     atomic.Pointer[context.CancelFunc] // ends the current watch; nil if there is none

	wentBack atomic.Bool // the cluster's revision went back, and Follow does not follow it since
	loaded   bool        // Load has read the state since; only of Load and Follow

	filling atomic.Bool // a Fill of this Log runs: Load accepts the marker

	asking sync.Mutex
	ask    *revisionRequest // the request that is not sent yet; nil if there is none
	busy   bool             // a request is in flight

	reads, writes histogram.Histogram
}

// Stats implements [store.Measured]. The names of operations are those of etcd's own clients.
func (l *Log) Stats() store.BackendStats {
	return store.BackendStats{Requests: map[string]histogram.Counts{"get": l.reads.Read(), "txn": l.writes.Read()}}
}

// revisionRequest is one request for the revision of the cluster, shared by all goroutines that
// wait for it.
type revisionRequest struct {
	done     chan struct{}
	revision uint64
	err      error
}

const defaultPrefix = "/registry"

const (
	// maxMessage limits requests; etcd has a limit of its own, usually of store.MaxObject.
	maxMessage = 2 * store.MaxUnit
	// maxAnswer limits responses. The largest one is a page of objects.
	maxAnswer = 1 << 30
)

// Open connects to a cluster. It fails if no member responds in time, or if one responds whose
// version of etcd has watches that lose events.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = defaultPrefix
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   cfg.Endpoints,
		TLS:         cfg.TLS,
		DialTimeout: cfg.Timeout,
		// detects members that fail without closing the connection
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxCallSendMsgSize:   maxMessage,
		MaxCallRecvMsgSize:   maxAnswer,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	l := &Log{client: client, prefix: "/" + strings.Trim(cfg.Prefix, "/") + "/", timeout: cfg.Timeout,
		failed: cfg.Failed}
	l.watching, l.end = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	l.gone, l.giveUp = context.WithCancel(context.Background())
	if _, err := l.newest(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("reach etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), reason(cfg, err))
	}
	if err := l.checkVersions(ctx, cfg.Endpoints); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// reason returns a more specific error than a timeout, if there is one: a gRPC client reports
// certificate errors, and members that do not listen, only as a timeout.
func reason(cfg Config, err error) error {
	for _, endpoint := range cfg.Endpoints {
		u, parse := url.Parse(endpoint)
		if parse != nil {
			continue
		}
		dialer := &net.Dialer{Timeout: time.Second}
		dial := dialer.Dial
		if u.Scheme == "https" {
			dial = (&tls.Dialer{NetDialer: dialer, Config: cfg.TLS}).Dial
		}
		conn, failed := dial("tcp", u.Host)
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
	l.giveUp()
	if err := l.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd client: %w", err)
	}
	return nil
}

// Path returns the etcd key of an object.
func (l *Log) Path(k store.Key) string {
	if k.Namespace == "" {
		return l.prefix + k.Resource + "/" + k.Name
	}
	return l.prefix + k.Resource + "/" + k.Namespace + "/" + k.Name
}

// parse returns the object key of an etcd key; ok is false if it is not the key of an object.
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

// Load reads objects in pages. If a page does not arrive in time or exceeds maxAnswer, it retries
// with a smaller one, down to smallestPage, which holds as many objects of store.MaxObject.
const page, smallestPage = 5000, 50

// Load implements [store.Shared].
func (l *Log) Load(ctx context.Context, each func(store.Record) error) (revision uint64, err error) {
	wentBack := l.wentBack.Load()
	from, limit := l.prefix, int64(page)
	for {
		answer, err := l.page(ctx, from, limit, revision)
		if (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.ResourceExhausted) &&
			ctx.Err() == nil && limit > smallestPage {
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
				if string(kv.Key) == l.prefix+marker && !l.filling.Load() {
					return 0, ErrIncomplete
				}
				continue // not an object of a control plane
			}
			err := each(store.Record{Key: k, Revision: uint64(kv.ModRevision), Created: uint64(kv.CreateRevision),
				Data: kv.Value})
			if errors.Is(err, store.ErrMalformed) {
				err = fmt.Errorf("the value of etcd's key %s is not an object of a control plane: choose another prefix, or remove it with etcdctl del %[1]s: %w", kv.Key, err)
			}
			if err != nil {
				return 0, err
			}
		}
		if !answer.More || len(answer.Kvs) == 0 {
			l.advance(revision)
			l.loaded = wentBack
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
		return nil, withContextError(ctx, err)
	}
	return answer, plausible(answer.Header.Revision)
}

// withContextError wraps err with the error of ctx if ctx has ended, because gRPC clients report
// the end of a context with an error of their own.
func withContextError(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// ErrWentBack means that the cluster has a lower revision than before: it was restored from a
// backup, or a member is isolated from the others. The state in memory is not a state of that
// cluster. Consistent reads and writes fail until its revision is at least the former one and the
// state has been loaded again.
var ErrWentBack = errors.New("the revision of etcd went back: after a restore from a backup, restart its control planes")

// plausible returns an error for revisions that no cluster has.
func plausible(revision int64) error {
	if revision <= 0 {
		return fmt.Errorf("%w: got %d", ErrWentBack, revision)
	}
	return nil
}

// continues is plausible, and compares the revision in a response with one that the cluster had
// before the request. After the revision went back, it returns an error until the state has been
// loaded again.
func (l *Log) continues(revision int64, before uint64) error {
	if err := plausible(revision); err != nil {
		return err
	}
	if uint64(revision) < before {
		l.wentBack.Store(true)
		if stop := l.stop.Load(); stop != nil {
			(*stop)()
		}
		return fmt.Errorf("%w: got %d after %d", ErrWentBack, revision, before)
	}
	if l.wentBack.Load() {
		return ErrWentBack
	}
	return nil
}

// awaitRevision waits until the cluster has reached a revision, or ctx ends.
func (l *Log) awaitRevision(ctx context.Context, revision uint64) {
	for ctx.Err() == nil {
		if answer, err := l.page(ctx, l.prefix, 1, 0); err == nil && uint64(answer.Header.Revision) >= revision {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// advance records the revision that the view has reached.
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
	// The context has no values of the caller. All watches therefore share one gRPC stream, as
	// RequestProgress requires.
	watching, cancel := context.WithCancel(l.watching)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	l.stop.Store(&cancel)
	if l.wentBack.Load() {
		if !l.loaded {
			l.awaitRevision(ctx, after)
			// the events since then are not those that led to the state in memory
			return store.ErrCompacted
		}
		l.loaded = false
		l.wentBack.Store(false)
	}
	// Without fragments, one response has all events that the watch is behind, in any size.
	answers := l.client.Watch(watching, l.prefix, clientv3.WithPrefix(), clientv3.WithRev(int64(after)+1),
		clientv3.WithProgressNotify(), clientv3.WithFragment())
	for answer := range answers {
		switch err := answer.Err(); {
		case answer.CompactRevision > 0:
			return store.ErrCompacted
		case err != nil:
			return fmt.Errorf("watch etcd: %w", err)
		case plausible(answer.Header.Revision) != nil:
			return fmt.Errorf("watch etcd: %w", plausible(answer.Header.Revision))
		case answer.IsProgressNotify():
			revision := uint64(answer.Header.Revision)
			apply(revision, nil)
			l.advance(revision)
			continue
		}
		l.each(answer.Events, apply)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case l.wentBack.Load():
		return ErrWentBack
	}
	return errors.New("watch etcd: the watch ended")
}

// each applies the events of a response, which contains whole transactions, one transaction at a
// time.
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
	writes := make([]clientv3.Op, 0, len(ops))
	for _, op := range ops {
		key := l.Path(op.Key)
		if strings.Contains(op.Key.Namespace, "/") || strings.Contains(op.Key.Name, "/") ||
			strings.Contains(op.Key.Resource, "/") {
			return 0, false, fmt.Errorf("%w: %q is not a valid etcd key", store.ErrMalformed, key)
		}
		switch {
		case op.Check && op.Key.Name == "":
			unchanged := clientv3.Compare(clientv3.ModRevision(key), "<", int64(op.Expect)+1)
			compare = append(compare, unchanged.WithPrefix())
		case op.Check && op.Expect == 0:
			compare = append(compare, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
		case op.Data == nil && op.Expect == 0:
			revision, err := l.Current(ctx) // a delete can't succeed if the object must not exist
			return revision, false, err
		case op.Data == nil && op.Expect == store.AnyRevision:
			compare = append(compare, clientv3.Compare(clientv3.CreateRevision(key), ">", 0))
		case op.Expect != store.AnyRevision:
			compare = append(compare, clientv3.Compare(clientv3.ModRevision(key), "=", int64(op.Expect)))
		}
		switch {
		case op.Check:
		case op.Data == nil:
			writes = append(writes, clientv3.OpDelete(key))
		default:
			writes = append(writes, clientv3.OpPut(key, string(op.Data)))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	defer context.AfterFunc(l.gone, cancel)()
	start, before := time.Now(), l.applied.Load()
	answer, err := l.client.Txn(ctx).If(compare...).Then(writes...).Commit()
	l.writes.Since(start)
	if err != nil {
		return 0, false, fmt.Errorf("write etcd: %w", refused(err))
	}
	if err := l.continues(answer.Header.Revision, before); err != nil {
		return 0, false, fmt.Errorf("write etcd: %w", err)
	}
	return uint64(answer.Header.Revision), answer.Succeeded, nil
}

// refused adds to the error of a write what it means for the store, if etcd is certain not to have
// executed the write.
func refused(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrDuplicateKey):
		return fmt.Errorf("%w: duplicate key in one unit", store.ErrMalformed)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return noSpace(err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), status.Code(err) == codes.ResourceExhausted &&
		strings.Contains(err.Error(), "message larger than max"):
		return fmt.Errorf("%w: its flag --max-request-bytes sets the limit: %w", store.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrTooManyOps), errors.Is(err, rpctypes.ErrTooManyRequests),
		errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: %w", store.ErrNotWritten, err)
	}
	return err
}

func noSpace(err error) error {
	return fmt.Errorf("%w: %w: compact and defragment its members or raise their --quota-backend-bytes, then disarm the alarm with etcdctl alarm disarm", store.ErrFull, err)
}

// Space implements [store.Spacious]: it returns an ErrFull while a member has the alarm NOSPACE,
// with which the cluster refuses writes. A user of etcd who may not read alarms gets no error.
func (l *Log) Space(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	answer, err := l.client.AlarmList(ctx)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get alarms of etcd: %w", err)
	}
	for _, alarm := range answer.Alarms {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return noSpace(fmt.Errorf("member %x has the alarm NOSPACE", alarm.MemberID))
		}
	}
	return nil
}

// Current implements [store.Shared]. One request to the cluster serves all callers that arrived
// before it was sent.
func (l *Log) Current(ctx context.Context) (uint64, error) {
	l.asking.Lock()
	if l.ask == nil {
		l.ask = &revisionRequest{done: make(chan struct{})}
	}
	q := l.ask
	if !l.busy {
		l.busy = true
		go l.requestRevisions()
	}
	l.asking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	select {
	case <-q.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-l.gone.Done():
		return 0, errGone
	}
	if q.err == nil && q.revision > l.applied.Load() {
		go l.hurry(q.revision)
	}
	return q.revision, q.err
}

// requestRevisions sends requests while readers are waiting.
func (l *Log) requestRevisions() {
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

// leaveTimeout limits reads of the revision after Leave.
const leaveTimeout = 2 * time.Second

var errGone = errors.New("no member of etcd responds, and this server stops")

// Leave makes all reads of the revision and writes fail, including those that wait, when no member
// responds for two seconds. A server that stops calls it. If etcd is gone too, each of the server's
// last writes would otherwise wait for the whole timeout.
func (l *Log) Leave() {
	l.leaving.Store(true)
	go func() { _, _ = l.newest(l.watching) }() // an earlier request may wait for longer
}

// newest returns the revision of the cluster, from its quorum.
func (l *Log) newest(ctx context.Context) (uint64, error) {
	timeout := l.timeout
	if l.leaving.Load() {
		timeout = min(timeout, leaveTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer l.reads.Since(time.Now())
	before := l.applied.Load()
	answer, err := l.client.Get(ctx, l.prefix, clientv3.WithCountOnly())
	if err == nil {
		err = l.continues(answer.Header.Revision, before)
	}
	if err != nil {
		if l.leaving.Load() {
			l.giveUp()
		}
		return 0, fmt.Errorf("get revision of etcd: %w", err)
	}
	return uint64(answer.Header.Revision), nil
}

// hurry requests progress notifications until the watch has reached a revision. Events alone do not
// get it there when other clients write outside of the prefix. Usually events are enough, so hurry
// waits a moment first. If a watch makes no progress for the duration of the timeout, hurry ends
// it, and Follow begins a new one, perhaps on another member: a member may respond to requests but
// have lost its watches.
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
			(*stop)() // no effect if another watch has replaced it
			stop, end = l.stop.Load(), time.Now().Add(l.timeout)
		}
		if l.applied.Load() < revision {
			// an error means that the client is recreating the stream
			_ = l.client.RequestProgress(l.watching)
		}
	}
}

// Compact removes the history before a revision, in the whole cluster.
func (l *Log) Compact(ctx context.Context, revision uint64) error {
	_, err := l.client.Compact(ctx, int64(revision))
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// CompactEvery removes, at an interval, the history before the previous interval, until ctx ends.
// One of the control planes that share the cluster should call it. It passes errors to the
// configured function; the next interval tries again.
func (l *Log) CompactEvery(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for before := uint64(0); ; {
		now, err := l.newest(ctx)
		if err == nil && before > 0 {
			err = l.Compact(ctx, before)
		}
		if now > 0 {
			before = now
		}
		if err != nil && ctx.Err() == nil && l.failed != nil {
			l.failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
