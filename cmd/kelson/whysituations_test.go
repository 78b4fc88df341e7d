package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/why"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
)

// situations are objects, and what kelson why says about one of them first. A file has YAML
// documents; the first line is a comment with the object and the expected line. Documents with a
// status are created without it, and then it is written. Files whose comment begins with "real"
// have no status: the controllers, the scheduler and the nodes of the control plane bring the
// situation about.
//
//go:embed testdata/why.txtar
var situations []byte

// TestWhySituations shows what a person sees first, without a trace, in situations that are
// frequent in clusters.
func TestWhySituations(t *testing.T) {
	// make why names another server. It has no controllers.
	kubeconfig, complete := os.Getenv("KELSON_TEST_KUBECONFIG"), false
	if kubeconfig == "" {
		kubeconfig, complete = startServer(t, "--in-memory", "--kubeconfig",
			filepath.Join(t.TempDir(), "kubeconfig")).kubeconfig, true
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	objects, err := client.New(client.Config{REST: config})
	require.NoError(t, err)
	crd, err := os.ReadFile("testdata/why/crd.yaml")
	require.NoError(t, err)
	install(t, objects, string(crd), "")
	require.Eventually(t, "the custom resource is served", func() bool {
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("sea.example.com/v1")
		all.SetKind("ShipList")
		return objects.List(t.Context(), all) == nil
	})
	first := func(object, namespace string) (line, all string) {
		c := why.Command()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs([]string{object, "-n", namespace, "--kubeconfig", kubeconfig})
		if err := c.ExecuteContext(t.Context()); err != nil {
			return "error: " + err.Error(), out.String()
		}
		lines := strings.Split(out.String(), "\n")
		return strings.Join(strings.Fields(lines[1]), " "), out.String()
	}
	archive := txtar.Parse(situations)
	if len(archive.Files) < 25 {
		t.Fatalf("only %d situations", len(archive.Files))
	}
	for _, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			comment, documents, _ := strings.Cut(string(f.Data), "\n")
			comment, real := strings.CutPrefix(strings.TrimPrefix(comment, "# "), "real ")
			object, want, ok := strings.Cut(comment, " => ")
			if !ok {
				t.Fatal("no expected line")
			}
			namespace := f.Name
			if real && !complete {
				t.Skip("SKIPPED: needs the controllers of kelson serve")
			}
			install(t, objects, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}", "")
			install(t, objects, documents, namespace)
			var line, all string
			check := func() bool {
				line, all = first(object, namespace)
				return strings.Contains(line, want)
			}
			if !real {
				if !check() {
					t.Errorf("the first line is %q, want %q in it:\n%s", line, want, all)
				}
				return
			}
			defer func() {
				if t.Failed() {
					t.Logf("the first line is %q, want %q in it:\n%s", line, want, all)
				}
			}()
			require.Eventually(t, "the line", check)
		})
	}
}

// install creates objects, and writes their statuses.
func install(t *testing.T, c client.Client, documents, namespace string) {
	t.Helper()
	uids := map[string]string{}
	for document := range strings.SplitSeq(documents, "\n---\n") {
		for name, uid := range uids {
			document = strings.ReplaceAll(document, "UID("+name+")", uid)
		}
		document = strings.NewReplacer("NOW", time.Now().UTC().Format(time.RFC3339), "EARLIER",
			time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)).Replace(document)
		obj := &unstructured.Unstructured{}
		require.NoErrorf(t, utilyaml.Unmarshal([]byte(document), &obj.Object), "in:\n%s", document)
		if obj.GetNamespace() == "" && namespace != "" {
			obj.SetNamespace(namespace)
		}
		status, has := obj.Object["status"]
		deleted := obj.GetAnnotations()["deleted"] != ""
		delete(obj.Object, "status")
		if err := c.Create(t.Context(), obj); err != nil && !(deleted && apierrors.IsAlreadyExists(err)) {
			t.Fatalf("create %s: %v", obj.GetName(), err)
		}
		uids[obj.GetName()] = string(obj.GetUID())
		if has {
			obj.Object["status"] = status
			require.NoErrorf(t, c.Subresource("status").Update(t.Context(), obj, obj), "status of %s", obj.GetName())
		}
		if deleted {
			require.NoError(t, c.Delete(t.Context(), obj))
		}
	}
}
