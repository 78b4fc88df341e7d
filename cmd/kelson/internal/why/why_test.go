package why

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// kelson why reads traces from files, from servers and from the file next to a kubeconfig. Flags
// without effect are errors.
func TestWhyReadsFilesAndServers(t *testing.T) {
	const one = `{"id":1,"run":"a","time":"2030-01-02T15:04:05Z","controller":"deploy","kind":"Deploy","namespace":"default","name":"d",` +
		`"causes":[{"event":"add","kind":"Deploy","namespace":"default","name":"d","manager":"kubectl-create"}],` +
		`"writes":[{"verb":"create","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","changed":true}],"duration":"1ms"}` + "\n"
	const two = `{"id":1,"run":"b","time":"2030-01-02T15:04:06Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c",` +
		`"causes":[{"event":"add","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8"}],` +
		`"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"p","resourceVersion":"9","changed":true}],"duration":"1ms"}` + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(two))
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig+".trace", []byte(one), 0o600))
	// The trace is next to the second file.
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "other")+string(filepath.ListSeparator)+kubeconfig)
	for _, tt := range []struct {
		args      string
		want, err string
	}{
		{args: "configmap/c", want: "because Deploy default/d was created by kubectl-create"},
		{args: "pod/p --trace " + server.URL + " --token secret --trace " + kubeconfig + ".trace",
			want: "because Deploy default/d was created by kubectl-create"},
		{args: "pod/p --trace " + server.URL, err: "401"},
		{args: "pod/p", err: "no recorded reconcile involves pod/p"},
		{args: "pod", err: "want KIND/NAME"},
		{args: "pod/p --token secret", err: "--token has no effect: no --trace is a URL"},
		{args: "pod/p --insecure-skip-tls-verify --trace " + server.URL,
			err: "--insecure-skip-tls-verify has no effect: no --trace is an https URL"},
		{args: "pod/p --trace /does/not/exist", err: "no such file"},
	} {
		c := Command()
		var out strings.Builder
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage = true
		c.SetArgs(strings.Fields(tt.args))
		err := c.ExecuteContext(t.Context())
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) ||
			!strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %v\n%s", tt.args, err, out.String())
		}
	}
}
