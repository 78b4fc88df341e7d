package etcd_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const copyKeys = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: key1, secret: c2VjcmV0IGlzIHNlY3VyZS1zZWNyZXQgaXMgc2VjdXI=}]}
`

// A server continues on etcd with the state of a data directory: with its uids, order, keys and
// encryption.
func TestCopyToEtcd(t *testing.T) {
	c := startCluster(t, 3, "http")
	c.healthy(t)
	client := c.dial(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "encryption.yaml")
	require.NoError(t, os.WriteFile(keys, []byte(copyKeys), 0o600))
	data := filepath.Join(dir, "data")
	s := serve(t, dir, "--node=none", "--encryption-provider-config", keys)
	copyData := func(args ...string) (string, error) {
		out, err := exec.Command(s.path, append([]string{"data", "copy", data, "--etcd-servers",
			strings.Join(c.endpoints(), ",")}, args...)...).CombinedOutput()
		return string(out), err
	}
	refused := func(what string, args ...string) {
		t.Helper()
		out, err := copyData(args...)
		if err == nil || !strings.Contains(out, what) || strings.Count(out, "\n") != 1 {
			t.Errorf("kelson data copy %v: %v: %s, want %q", args, err, out, what)
		}
	}
	for _, name := range []string{"z", "m", "a"} { // the order differs from that of the names
		s.kubectl("", "create", "configmap", name)
	}
	s.kubectl("", "create", "secret", "generic", "hidden", "--from-literal=password=in-plain-text")
	s.kubectl("", "annotate", "configmap", "m", "newest=true")
	// These writes use revisions that no object has afterwards.
	for range 3 {
		s.kubectl("", "create", "configmap", "gone")
		s.kubectl("", "delete", "configmap", "gone")
	}
	refused("in use by another process", "--encryption-provider-config", keys)
	account := strings.TrimSpace(s.kubectl("", "create", "token", "default"))
	list := func() (uids, order []string, revision int) {
		t.Helper()
		lines := strings.Fields(s.kubectl("", "get", "configmaps,secrets,namespaces,serviceaccounts,clusterroles", "-A",
			"--sort-by=.metadata.uid",
			"-o", `jsonpath={range .items[*]}{.metadata.uid}/{.kind}/{.metadata.name}/{.metadata.resourceVersion}{"\n"}{end}`))
		slices.SortFunc(lines, func(a, b string) int { return revisionOf(t, a) - revisionOf(t, b) })
		for _, l := range lines {
			identity := l[:strings.LastIndex(l, "/")]
			order = append(order, identity)
			revision = max(revision, revisionOf(t, l))
		}
		return slices.Sorted(slices.Values(order)), order, revision
	}
	uids, order, newest := list()
	s.process.Process.Signal(syscall.SIGTERM)
	s.process.Wait()

	refused("is encrypted: pass --encryption-provider-config", "--etcd-prefix=/without-keys")
	_, err := client.Put(t.Context(), "/occupied/things/a", "{}")
	require.NoError(t, err)
	refused("etcd has objects already: 1 keys begin with /occupied/", "--encryption-provider-config", keys,
		"--etcd-prefix=/occupied")
	if out, err := exec.Command(s.path, "data", "copy", data).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "pass --etcd-servers") {
		t.Errorf("kelson data copy without a cluster: %v: %s", err, out)
	}
	refused("--etcd-certfile and --etcd-keyfile must be given together", "--etcd-certfile=x")

	out, err := copyData("--encryption-provider-config", keys)
	if err != nil || !strings.Contains(out, "copied ") {
		t.Fatalf("kelson data copy: %v: %s", err, out)
	}
	refused("etcd has objects already", "--encryption-provider-config", keys)
	secret, err := client.Get(t.Context(), "/registry/secrets/default/hidden")
	if err != nil || len(secret.Kvs) != 1 {
		t.Fatalf("the Secret in etcd: %v, %v", secret, err)
	}
	if value := string(secret.Kvs[0].Value); !strings.HasPrefix(value, "k8s:enc:aescbc:v1:key1:") ||
		strings.Contains(value, "aW4tcGxhaW4tdGV4dA") {
		t.Errorf("the Secret in etcd is not encrypted: %q", value)
	}
	if first := secret.Kvs[0].CreateRevision; first <= int64(newest) {
		t.Errorf("the revision %d was assigned twice", first)
	}

	s = serve(t, dir, "--node=none", "--encryption-provider-config", keys, "--etcd-servers",
		strings.Join(c.endpoints(), ","))
	s.kubectl("", "get", "--raw", "/readyz")
	nowUIDs, nowOrder, _ := list()
	for _, u := range uids {
		if !slices.Contains(nowUIDs, u) {
			t.Errorf("%s is missing", u)
		}
	}
	// The server may have changed or created objects of its own after the copy.
	if own := func(l []string) (kept []string) {
		for _, u := range l {
			if strings.Contains(u, "/ConfigMap/a") || strings.Contains(u, "/ConfigMap/m") ||
				strings.Contains(u, "/ConfigMap/z") || strings.Contains(u, "/Secret/hidden") {
				kept = append(kept, u)
			}
		}
		return kept
	}; len(own(order)) != 4 || !slices.Equal(own(order), own(nowOrder)) {
		t.Errorf("the order of changes is %v, was %v", own(nowOrder), own(order))
	}
	got := s.kubectl("", "get", "secret", "hidden", "-o",
		"jsonpath={.data.password}")
	assert.Equalf(t, got, "aW4tcGxhaW4tdGV4dA==", "the Secret")
	review := `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"` + account + `"}}`
	got = s.kubectl(review, "create", "-f", "-", "-o", "jsonpath={.status.user.username}")
	assert.Equalf(t, got, "system:serviceaccount:default:default", "the token from before is that")
	// A client that watches from a former revision lists again.
	out, _ = s.try("", "get", "--raw", fmt.Sprint("/api/v1/configmaps?watch=true&timeoutSeconds=5&resourceVersion=",
		newest))
	if !strings.Contains(out, `"code":410`) && !strings.Contains(out, "too old") {
		t.Errorf("a watch from revision %d: %s, want 410", newest, out)
	}
	s.kubectl("", "create", "configmap", "new")
}

// revisionOf returns the revision after the last slash.
func revisionOf(t *testing.T, line string) int {
	t.Helper()
	n, err := strconv.Atoi(line[strings.LastIndex(line, "/")+1:])
	require.NoErrorf(t, err, "%q", line)
	return n
}

// After an interrupted copy, stores refuse to use the prefix, and the next copy starts from the
// beginning.
func TestInterruptedCopy(t *testing.T) {
	c := startCluster(t, 1, "http")
	c.healthy(t)
	client := c.dial(t)
	log, err := etcd.Open(t.Context(), etcd.Config{Endpoints: c.endpoints(), Timeout: 10 * time.Second})
	require.NoError(t, err)
	defer log.Close()
	put := func(names ...string) func() error {
		return func() error {
			for _, name := range names {
				_, ok, err := log.Commit(t.Context(),
					[]store.Op{{Key: store.Key{Resource: "things", Name: name}, Data: []byte(`{"metadata":{}}`)}})
				if err != nil || !ok {
					return fmt.Errorf("commit %s: %t, %w", name, ok, err)
				}
			}
			return nil
		}
	}
	interrupted := fmt.Errorf("interrupted")
	if err := log.Fill(t.Context(), 300, func() error {
		if err := put("a", "z")(); err != nil {
			return err
		}
		return interrupted
	}); err != interrupted {
		t.Fatal(err)
	}
	load := func() (names []string, revision uint64, err error) {
		revision, err = log.Load(t.Context(), func(r store.Record) error {
			if r.Revision <= 300 {
				t.Errorf("%v has revision %d, want more than 300", r.Key, r.Revision)
			}
			names = append(names, r.Key.Name)
			return nil
		})
		return names, revision, err
	}
	if _, _, err := load(); err == nil || !strings.Contains(err.Error(), etcd.ErrIncomplete.Error()) {
		t.Errorf("load after an interrupted copy: %v, want %v", err, etcd.ErrIncomplete)
	}
	require.NoError(t, log.Fill(t.Context(), 200, put("b", "y")))
	names, revision, err := load()
	if err != nil || !slices.Equal(names, []string{"b", "y"}) || revision > 320 {
		t.Errorf("after the second copy: %v at %d, %v", names, revision, err)
	}
	if err := log.Fill(t.Context(), 0, put("c")); err == nil ||
		!strings.Contains(err.Error(), etcd.ErrNotEmpty.Error()) {
		t.Errorf("copy to a prefix in use: %v, want %v", err, etcd.ErrNotEmpty)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	old := <-client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(300))
	if old.CompactRevision == 0 {
		t.Errorf("a watch from revision 300: %v, want that it is compacted", old.Err())
	}
}
