package builtin

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A kubelet or pod that accepts connections and sends nothing holds a request only as long as a TLS
// handshake may take, also if the request itself has no deadline.
func TestSilentKubelet(t *testing.T) {
	for name, transport := range map[string]func() *http.Transport{
		"kubelet": func() *http.Transport { return Kubelets{}.transport(false) }, "pod": toNetwork,
	} {
		synctest.Test(t, func(t *testing.T) {
			rt := transport()
			rt.DialContext = func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				t.Cleanup(func() { theirs.Close() })
				go func() {
					var hello [1 << 10]byte
					for {
						if _, err := theirs.Read(hello[:]); err != nil {
							return
						}
					}
				}()
				return ours, nil
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"https://10.0.0.1:10250/containerLogs/default/a/b", nil)
			require.NoError(t, err)
			begin := time.Now()
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
				t.Fatal("a response")
			}
			assert.Equalf(t, time.Since(begin), maxHandshake, "%s: %v after", name, err)
		})
	}
}
