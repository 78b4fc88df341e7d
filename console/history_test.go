package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
)

// writeHistory writes four versions of a ConfigMap, the last of which is a deletion.
func writeHistory(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "test.history")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	w, err := history.NewWriter(f)
	require.NoError(t, err)
	err = w.Resource(history.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true})
	require.NoError(t, err)
	key := history.Key{Resource: "configmaps", Namespace: "default", Name: "settings"}
	began := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	for i, size := range []string{"small", "medium", "large"} {
		data, err := json.Marshal(corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			Data:     map[string]string{"size": size, "color": "green"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", ResourceVersion: fmt.Sprint(10 + i),
				ManagedFields: []metav1.ManagedFieldsEntry{{
					Manager:   []string{"kubectl-create", "kubectl-edit", "kubectl-edit"}[i],
					Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
					FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:size":{}}}`)},
				}}},
		})
		require.NoError(t, err)
		require.NoError(t, w.Put(key, uint64(10+i), began.Add(time.Duration(i)*time.Minute), data))
	}
	require.NoError(t, w.Delete(key, 13, began.Add(3*time.Minute)))
	require.NoError(t, w.Flush())
	return name
}

// The view shows the versions of a deleted object, compares any two of them, and shows all changes
// in the cluster between two moments.
func TestHistory(t *testing.T) {
	chromium(t)
	changes := 0
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", History: writeHistory(t)}))
	b.goTo("/history")
	b.shows("4 versions")
	b.shows("settings")
	b.goTo("/history?from=10&to=12")
	b.until(`document.querySelector('.changed')?.innerText.includes('2 versions')`)
	b.goTo("/object/configmaps/default/settings?tab=history")
	b.shows("version 4 of 4")
	b.shows("The object was deleted.")
	eval[any](b, `document.querySelector('[aria-label="Previous version"]').click()`)
	b.shows("version 3 of 4")
	b.until(`document.querySelector('.yaml')?.innerText.includes('size: large')`)
	b.until(`document.querySelector('.versions')?.innerText.includes('"medium" → "large"')`)
	b.until(`document.querySelector('.versions')?.innerText.includes('by kubectl-edit')`)
	b.goTo("/object/configmaps/default/settings?tab=history&at=12&base=10")
	b.until(`document.querySelector('.diff .added')?.innerText.includes('size: large') && document.querySelector('.diff .removed')?.innerText.includes('size: small')`)
	b.shot("history")
}

// The versions in the data directory of a server, with the manager that set each field. The views
// follow the versions that the server adds.
func TestHistoryOfADataDirectory(t *testing.T) {
	chromium(t)
	dir := t.TempDir()
	folder := filepath.Join(dir, history.Folder)
	require.NoError(t, os.Mkdir(folder, 0o700))
	file := filepath.Join(folder, "00000000000000000010.history")
	require.NoError(t, os.Rename(writeHistory(t), file))
	changes := 0
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", History: dir}))
	b.goTo("/object/configmaps/default/settings?tab=history&at=12")
	b.until(`[...document.querySelectorAll('section tr')].some((r) => r.innerText.includes('data.size') && r.innerText.includes('"large"') && r.innerText.includes('kubectl-edit') && r.innerText.includes('12'))`)
	b.until(`[...document.querySelectorAll('section tr')].some((r) => r.innerText.includes('data.color') && r.innerText.includes('≤ 10'))`)
	b.shot("history-blame")
	b.goTo("/history")
	b.shows("4 versions")
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	w, err := history.Resume(f)
	require.NoError(t, err)
	key := history.Key{Resource: "configmaps", Namespace: "default", Name: "settings"}
	err = w.Put(key, 20, time.Now(), []byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"settings","uid":"2"}}`))
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	b.shows("5 versions")
	b.until(`document.querySelector('tbody tr').cells[1].innerText === '5'`)
	// what changed in the last minutes, with the fields and their writer
	data := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"settings","uid":"2",`+
		`"managedFields":[{"manager":"scaler","operation":"Update","time":%q,"fieldsV1":{}}]},"data":{"size":"huge"}}`,
		time.Now().UTC().Format(time.RFC3339))
	require.NoError(t, w.Put(key, 21, time.Now(), []byte(data)))
	require.NoError(t, w.Flush())
	b.until(`[...document.querySelectorAll('.recent li')].some((li) => li.innerText.includes('default/settings') && li.innerText.includes('by scaler'))`)
	b.shot("recent-with-history")
}

// The page of kelson serve --history shows the server's history.
func TestHistoryOfAServer(t *testing.T) {
	chromium(t)
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		t.Skip("SKIPPED: KELSON is not set to the kelson binary")
	}
	dir := t.TempDir()
	serve := exec.Command(kelson, "serve", "--data-dir", dir, "--history", "1h", "--console", "--secure-port", "0")
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		assert.NoErrorf(t, serve.Wait(), "kelson serve")
	})
	address := regexp.MustCompile(`console: +(http://\S+)`)
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"},
		Data: map[string]string{"size": "small"}}
	settings, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), settings,
		metav1.CreateOptions{})
	require.NoError(t, err)
	b := openURL(t, url)
	b.goTo("/object/configmaps/default/settings?tab=history")
	b.shows("version 1 of 1")
	settings.Data["size"] = "large"
	_, err = client.CoreV1().ConfigMaps("default").Update(t.Context(), settings,
		metav1.UpdateOptions{FieldManager: "test"})
	require.NoError(t, err)
	b.shows("version 2 of 2")
	b.until(`document.querySelector('.versions')?.innerText.includes('"small" → "large"')`)
	b.shot("history-of-a-server")
}
