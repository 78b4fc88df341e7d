package controlplane_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// unread is an HTTP/2 connection of a client that opens streams but never reads from them: their
// flow-control windows are zero.
type unread struct {
	t      testing.TB
	framer *http2.Framer
	conn   io.Closer
	next   uint32
}

func (s *site) unread(t *testing.T, name string, groups ...string) *unread {
	t.Helper()
	return s.framed(t, 0, name, groups...)
}

// framed returns an HTTP/2 connection whose streams begin with a flow-control window.
func (s *site) framed(t testing.TB, window uint32, name string, groups ...string) *unread {
	t.Helper()
	pair := certified(t, s.ca, name, groups...)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"),
		&tls.Config{RootCAs: s.ca.Pool(), Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	u := &unread{t: t, framer: http2.NewFramer(conn, conn), conn: conn, next: 1}
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	u.must(u.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return u
}

func (u *unread) must(err error) {
	u.t.Helper()
	require.NoError(u.t, err)
}

// get opens streams for a path, and returns when all of them have a header.
func (u *unread) get(n int, path string) {
	u.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for range n {
		block.Reset()
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"},
			{":path", path}} {
			u.must(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
		}
		u.must(u.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: u.next, BlockFragment: block.Bytes(),
			EndHeaders: true, EndStream: true}))
		u.next += 2
	}
	for n > 0 {
		frame, err := u.framer.ReadFrame()
		u.must(err)
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				u.must(u.framer.WriteSettingsAck())
			}
		case *http2.HeadersFrame:
			n--
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			u.t.Fatalf("%v", frame)
		}
	}
}

// held returns the memory in use, once it is stable.
func held() (now uint64) {
	for same := 0; same < 3; {
		time.Sleep(100 * time.Millisecond)
		runtime.GC()
		runtime.GC() // empties pools
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		before := now
		now = stats.HeapAlloc + stats.StackInuse
		if same++; max(now, before)-min(now, before) > 1<<20 {
			same = 0
		}
	}
	return now
}

// Watches that clients do not read need little memory: no copies of objects and no large buffers,
// regardless of the size of the objects.
func TestUnreadWatches(t *testing.T) {
	const (
		watches = 200
		most    = 128 << 10 // per watch
	)
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	admin := client(s.ControlPlane, "root", user.SystemPrivilegedGroup)
	for namespace, shape := range map[string]struct{ objects, size int }{"default": {10, 1_000_000},
		"kube-public": {2000, 5000}} {
		for i := range shape.objects {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)},
				Data: map[string]string{"x": strings.Repeat("x", shape.size)}}
			_, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, createOpts)
			require.NoError(t, err)
		}
		t.Run(fmt.Sprintf("%d objects of %d bytes", shape.objects, shape.size), func(t *testing.T) {
			u := s.unread(t, "mallory", user.SystemPrivilegedGroup)
			path := "/api/v1/namespaces/" + namespace + "/configmaps?watch=1"
			u.get(1, path)
			before := held()
			u.get(watches, path)
			each := (max(held(), before) - before) / watches
			t.Logf("%d bytes each", each)
			if each > most {
				t.Errorf("each of %d watches holds %d bytes, want at most %d", watches, each, most)
			}
			u.conn.Close()
		})
	}
}
