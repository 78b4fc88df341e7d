package apitest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// dial opens a WebSocket to a plane.
func dial(t *testing.T, p *apitest.Plane, path string, header http.Header,
	protocols ...string) (*websocket.Conn, error) {
	t.Helper()
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.ServeHTTP(w, req.WithContext(filters.WithUser(req.Context(), admin)))
	})
	config, err := websocket.NewConfig("ws://kelson"+path, "http://kelson")
	require.NoError(t, err)
	config.Protocol = protocols
	for name, values := range header {
		config.Header[name] = values
	}
	conn := inprocess.Dial(context.Background(), handler)
	ws, err := websocket.NewClient(config, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	t.Cleanup(func() { ws.Close() })
	return ws, nil
}

func receive(t *testing.T, ws *websocket.Conn) (typ string, obj apitest.Object) {
	t.Helper()
	var frame []byte
	require.NoError(t, websocket.Message.Receive(ws, &frame))
	var event struct {
		Type   string
		Object apitest.Object
	}
	require.NoErrorf(t, json.Unmarshal(frame, &event), "%s", frame)
	return event.Type, event.Object
}

// Watches over WebSocket deliver objects, tables, metadata and protobuf, and report errors in an
// event or before the upgrade.
func TestWatchOverWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := apitest.New(t)
		p.Want(t, 201, "POST", maps, configMap("a", ""))
		plain, err := dial(t, p, maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
		require.NoError(t, err)
		if typ, obj := receive(t, plain); typ != "ADDED" || obj["kind"] != "ConfigMap" {
			t.Errorf("%s %v", typ, obj)
		}
		if typ, obj := receive(t, plain); typ != "BOOKMARK" ||
			apitest.At(obj, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
			t.Errorf("%s %v", typ, obj)
		}
		table, err := dial(t, p, maps+"?watch=1",
			http.Header{"Accept": {"application/json;as=Table;g=meta.k8s.io;v=v1"}}, "binary.k8s.io")
		require.NoError(t, err)
		if typ, obj := receive(t, table); typ != "ADDED" || obj["kind"] != "Table" ||
			len(obj["columnDefinitions"].([]any)) == 0 {
			t.Errorf("%s %v", typ, obj)
		}
		partial, err := dial(t, p, maps+"?watch=1",
			http.Header{"Accept": {"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}})
		require.NoError(t, err)
		if typ, obj := receive(t, partial); typ != "ADDED" || obj["kind"] != "PartialObjectMetadata" {
			t.Errorf("%s %v", typ, obj)
		}
		proto, err := dial(t, p, maps+"?watch=1", http.Header{"Accept": {"application/vnd.kubernetes.protobuf"}})
		require.NoError(t, err)
		var frame []byte
		require.NoError(t, websocket.Message.Receive(proto, &frame))
		var event metav1.WatchEvent
		if err := event.Unmarshal(frame); err != nil || event.Type != "ADDED" ||
			!strings.HasPrefix(string(event.Object.Raw), "k8s\x00") {
			t.Errorf("%v %v", err, event)
		}

		p.Want(t, 201, "POST", maps, configMap("b", ""))
		for _, ws := range []*websocket.Conn{plain, table, partial} {
			typ, _ := receive(t, ws)
			assert.Equal(t, typ, "ADDED")
		}
		late, err := dial(t, p, maps+"?watch=1&resourceVersion=999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", nil)
		require.NoError(t, err)
		if typ, obj := receive(t, late); typ != "ERROR" || obj["code"] != 504.0 {
			t.Errorf("%s %v", typ, obj)
		}
		if err := websocket.Message.Receive(late, &frame); err != io.EOF {
			t.Errorf("after the error: %v", err)
		}
		short, err := dial(t, p, maps+"?watch=1&timeoutSeconds=5&resourceVersion=3", nil)
		require.NoError(t, err)
		if err := websocket.Message.Receive(short, &frame); err != io.EOF {
			t.Errorf("after five seconds: %v", err)
		}

		// Errors are returned before the upgrade. A watch ends when the client disconnects and when
		// the server shuts down.
		for _, path := range []string{maps + "?watch=1&resourceVersionMatch=Exact",
			maps + "?watch=1&resourceVersion=x"} {
			if _, err := dial(t, p, path, nil); err == nil {
				t.Errorf("%s: upgraded", path)
			}
		}
		if _, err := dial(t, p, maps+"?watch=1", nil, "one", "two"); err == nil {
			t.Error("two subprotocols")
		}
		partial.Close()
		synctest.Wait()
		require.NoError(t, p.Shutdown(context.Background()))
		if err := websocket.Message.Receive(plain, &frame); err != io.EOF {
			t.Errorf("after shutdown: %v", err)
		}
	})
}

// If the connection can't be upgraded, the response contains the reason.
func TestWatchOverWebSocketWithoutUpgrade(t *testing.T) {
	p := apitest.New(t)
	status := p.Want(t, 500, "GET", maps+"?watch=1", "", "Connection: Upgrade", "Upgrade: websocket")
	assert.Equalf(t, status["reason"], "InternalError", "%v", status)
}
