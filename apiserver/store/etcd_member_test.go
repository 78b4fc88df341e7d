package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
	"kelson.dev/internal/require"
)

// member is an etcd cluster with one member whose behavior tests control. It has a single key,
// which other clients write.
type member struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	etcdserverpb.UnimplementedMaintenanceServer
	timeout time.Duration // of its clients

	mu       sync.Mutex
	revision int64
	value    string
	version  string // of etcd; "" if the member does not report it
	hangs    bool   // does not answer reads and writes
	slow     bool   // does not answer reads of large pages
	silent   bool   // accepts watches and sends no events
	refusal  error  // the answer to writes
	watches  int
	written  chan struct{} // closed and replaced with each write
}

func (m *member) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.written)
	m.written = make(chan struct{})
}

func (m *member) kv() *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte("/registry/things/a"), Value: []byte(m.value), CreateRevision: 5,
		ModRevision: m.revision, Version: 1}
}

func (m *member) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: m.revision, RaftTerm: 1}
}

func (m *member) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hangs || m.slow && r.Limit > 100 {
		m.mu.Unlock()
		<-ctx.Done()
		m.mu.Lock()
		return nil, ctx.Err()
	}
	answer := &etcdserverpb.RangeResponse{Header: m.header(), Count: 1}
	if !r.CountOnly {
		answer.Kvs = []*mvccpb.KeyValue{m.kv()}
	}
	return answer, nil
}

func (m *member) Status(ctx context.Context, r *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == "" {
		return m.UnimplementedMaintenanceServer.Status(ctx, r)
	}
	return &etcdserverpb.StatusResponse{Header: m.header(), Version: m.version}, nil
}

func (m *member) Txn(ctx context.Context, _ *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	m.mu.Lock()
	hangs, refusal := m.hangs, m.refusal
	m.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, refusal
}

// Watch serves all watches of one stream. A client may create, cancel and create again on the same
// stream, and may ask for progress before it creates the first one.
func (m *member) Watch(stream etcdserverpb.Watch_WatchServer) error {
	requests := make(chan *etcdserverpb.WatchRequest)
	go func() {
		defer close(requests)
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- request:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	type watch struct {
		after  int64
		silent bool
	}
	watches := map[int64]*watch{}
	next := int64(0)
	for {
		m.mu.Lock()
		written, header, revision, kv := m.written, m.header(), m.revision, m.kv()
		m.mu.Unlock()
		for id, w := range watches {
			if w.silent || revision <= w.after {
				continue
			}
			w.after = revision
			events := []*mvccpb.Event{{Type: mvccpb.PUT, Kv: kv}}
			if err := stream.Send(&etcdserverpb.WatchResponse{Header: header, WatchId: id, Events: events}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-written:
		case request, ok := <-requests:
			if !ok {
				return stream.Context().Err()
			}
			answer := &etcdserverpb.WatchResponse{Header: header}
			if create := request.GetCreateRequest(); create != nil {
				answer.Created, answer.WatchId = true, next
				m.mu.Lock()
				watches[next] = &watch{after: create.GetStartRevision() - 1, silent: m.silent}
				m.watches++
				m.mu.Unlock()
				next++
			} else if cancel := request.GetCancelRequest(); cancel != nil {
				answer.Canceled, answer.WatchId = true, cancel.GetWatchId()
				delete(watches, cancel.GetWatchId())
			} else {
				continue // a silent member does not report progress
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

func newMember(t *testing.T) (m *member, open func() (*store.Store, error)) {
	t.Helper()
	m, log := newLog(t, nil)
	return m, func() (*store.Store, error) {
		log, err := log()
		if err != nil {
			return nil, err
		}
		return store.Open(store.Config{Shared: log, Log: slog.New(slog.DiscardHandler)})
	}
}

func newLog(t *testing.T, failed func(error)) (m *member, open func() (*etcd.Log, error)) {
	t.Helper()
	m = &member{revision: 7, value: `{"metadata":{"name":"a"},"value":1}`, timeout: 500 * time.Millisecond,
		written: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, m)
	etcdserverpb.RegisterWatchServer(server, m)
	etcdserverpb.RegisterMaintenanceServer(server, m)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return m, func() (*etcd.Log, error) {
		return etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + listener.Addr().String()},
			Timeout: m.timeout, Failed: failed})
	}
}

func soon(t *testing.T, what string, do func() error) error {
	t.Helper()
	start := time.Now()
	err := do()
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("%s took %s", what, took)
	}
	return err
}

// Compactions that fail are reported, and tried again.
func TestCompactionsThatFail(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	_, open := newLog(t, func(err error) { // the member does not implement compactions
		if errs = append(errs, err); len(errs) == 2 {
			cancel()
		}
	})
	log, err := open()
	require.NoError(t, err)
	defer log.Close()
	if err = log.CompactEvery(ctx, time.Millisecond); err != nil || len(errs) != 2 ||
		!strings.Contains(fmt.Sprint(errs), "compact etcd") {
		t.Errorf("%v, %v", err, errs)
	}
}

// If a member accepts connections and answers nothing, the start, reads and writes fail in bounded
// time.
func TestHangingMember(t *testing.T) {
	m, open := newMember(t)
	m.set(func() { m.hangs = true })
	if err := soon(t, "the start", func() error { _, err := open(); return err }); err == nil {
		t.Error("the start succeeded although the member does not answer")
	}
	m.set(func() { m.hangs = false })
	s, err := open()
	require.NoError(t, err)
	defer s.Close()
	m.set(func() { m.hangs = true })
	if err := soon(t, "a read", func() error { _, err := s.Fresh(t.Context()); return err }); err == nil {
		t.Error("a consistent read succeeded although the member does not answer")
	}
	if s.Snapshot().Count("things", "") != 1 {
		t.Error("the state cannot be read")
	}
	m.set(func() { m.hangs = false })
	if sn, err := s.Fresh(t.Context()); err != nil || sn.Revision() < 7 {
		t.Errorf("afterwards: %v", err)
	}
}

// A server that stops while no member responds waits for it once, even if earlier requests wait for
// longer.
func TestLeaveHangingMember(t *testing.T) {
	m, open := newLog(t, nil)
	m.timeout = time.Hour
	log, err := open()
	require.NoError(t, err)
	defer log.Close()
	m.set(func() { m.hangs = true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if _, err := log.Current(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("a read of the revision: %v", err)
			}
		})
	}
	waiting.Go(func() {
		if _, _, err := log.Commit(ctx, []store.Op{{Key: store.Key{Resource: "things", Name: "b"},
			Data: []byte(`{}`)}}); err == nil || ctx.Err() != nil {
			t.Errorf("a write: %v", err)
		}
	})
	log.Leave()
	waiting.Wait()
}

// Members whose watches may lose events are refused.
func TestVersions(t *testing.T) {
	for version, accepted := range map[string]bool{
		"3.4.30": false, "3.4.31": true, "3.4.40": true, "3.5.0-rc.1": false, "3.5.12": false, "3.5.13": true,
		"3.6.0": true, "4.0.0": true, "unknown": true,
	} {
		m, open := newLog(t, nil)
		m.version = version
		log, err := open()
		if (err == nil) != accepted {
			t.Errorf("%s: %v", version, err)
		}
		if err == nil {
			log.Close()
		} else if !strings.Contains(err.Error(), "etcd "+version+" at http://127.0.0.1:") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// The error of a member that does not listen names the cause.
func TestNoMember(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	_, err = etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + l.Addr().String()},
		Timeout: time.Millisecond})
	if cause := (*net.OpError)(nil); !errors.As(err, &cause) {
		t.Errorf("got %v", err)
	}
}

// The error of a value that another program wrote names its key and what to do.
func TestForeignValue(t *testing.T) {
	m, open := newMember(t)
	m.set(func() { m.value = "not an object" })
	_, err := open()
	if !errors.Is(err, store.ErrMalformed) || !strings.Contains(fmt.Sprint(err), "etcdctl del /registry/things/a: ") {
		t.Errorf("got %v", err)
	}
}

// The errors of writes that etcd certainly has not executed say so.
func TestRefusedWrites(t *testing.T) {
	m, open := newMember(t)
	s, err := open()
	require.NoError(t, err)
	defer s.Close()
	for _, test := range []struct{ refusal, want error }{
		{rpctypes.ErrGRPCNoSpace, store.ErrFull},
		{rpctypes.ErrGRPCRequestTooLarge, store.ErrTooLarge},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (2097152 vs. 2096640)"),
			store.ErrTooLarge},
		{rpctypes.ErrGRPCTooManyOps, store.ErrNotWritten},
		{rpctypes.ErrGRPCRequestTooManyRequests, store.ErrNotWritten},
		{rpctypes.ErrGRPCPermissionDenied, store.ErrNotWritten},
		{rpctypes.ErrGRPCDuplicateKey, store.ErrMalformed},
		{rpctypes.ErrGRPCTimeout, store.ErrUnreachable},
		{rpctypes.ErrGRPCLeaderChanged, store.ErrUnreachable},
	} {
		m.set(func() { m.refusal = test.refusal })
		_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "things", Name: "b"},
			Data: []byte(`{"metadata":{}}`)})
		if !errors.Is(err, test.want) || errors.Is(err, store.ErrUnreachable) != (test.want == store.ErrUnreachable) {
			t.Errorf("%v: %v, want %v", test.refusal, err, test.want)
		}
	}
}

// Pages that do not arrive in time are requested again in smaller parts.
func TestSlowMember(t *testing.T) {
	m, open := newMember(t)
	m.set(func() { m.slow = true })
	var s *store.Store
	require.NoError(t, soon(t, "the start", func() (err error) { s, err = open(); return err }))
	defer s.Close()
	if s.Snapshot().Count("things", "") != 1 {
		t.Error("the object was not loaded")
	}
}

// A member that answers reads but loses its watches does not leave the store behind permanently.
func TestMemberLosesWatches(t *testing.T) {
	m, open := newMember(t)
	m.set(func() { m.silent = true })
	s, err := open()
	require.NoError(t, err)
	defer s.Close()
	m.set(func() { m.revision, m.value = 9, `{"metadata":{"name":"a"},"value":2}` })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Fresh(ctx); err == nil {
		t.Error("a consistent read returned writes that no watch has delivered")
	}
	m.set(func() { m.silent = false }) // for new watches
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sn, err := s.Fresh(ctx)
	if err != nil || sn.Revision() != 9 {
		t.Fatalf("revision %v, %v", sn, err)
	}
	for obj := range sn.Scan("things", "", store.Key{}) {
		if !strings.Contains(string(obj.Data), `"value":2`) {
			t.Errorf("%s", obj.Data)
		}
	}
}

// The store rejects responses of a cluster whose revision goes back or is impossible. Once the
// revision of a cluster that went back has passed the former one, the store loads the state again:
// the events between them are not those that led to its state.
func TestMemberReturnsWrongRevision(t *testing.T) {
	for _, wrong := range []int64{3, 0, -1} {
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			m, open := newMember(t)
			s, err := open()
			require.NoError(t, err)
			defer s.Close()
			cursor, err := s.Watch("things", 7)
			require.NoError(t, err)
			m.set(func() { m.revision = wrong })
			if err := soon(t, "a read", func() error {
				_, err := s.Fresh(t.Context())
				return err
			}); !errors.Is(err, etcd.ErrWentBack) {
				t.Errorf("a consistent read: %v", err)
			}
			if sn := s.Snapshot(); sn.Revision() != 7 {
				t.Errorf("revision %d", sn.Revision())
			}
			m.set(func() { m.revision = 8 })
			sn, err := s.Fresh(t.Context())
			for end := time.Now().Add(time.Minute); wrong > 0 && errors.Is(err, etcd.ErrWentBack) &&
				time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
				sn, err = s.Fresh(t.Context())
			}
			if err != nil || sn.Revision() != 8 {
				t.Fatalf("afterwards: %v", err)
			}
			if events, _, err := cursor.Next(); errors.Is(err, store.ErrCompacted) != (wrong > 0) {
				t.Errorf("a watch from before: %d events, %v", len(events), err)
			}
		})
	}
	m, open := newMember(t)
	m.set(func() { m.revision = -1 })
	if _, err := open(); !errors.Is(err, etcd.ErrWentBack) {
		t.Errorf("the start: %v", err)
	}
}
