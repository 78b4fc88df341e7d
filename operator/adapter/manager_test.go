package adapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/operator/adapter"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/trace"
)

// podOf is a reconciler for controller-runtime that creates a Pod for each ConfigMap, and then
// checks that it reads its own write.
type podOf struct {
	crclient.Client
	runs, stale atomic.Int64
}

func (r *podOf) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.runs.Add(1)
	cm := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, cm); err != nil {
		return reconcile.Result{}, crclient.IgnoreNotFound(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, pod, func() error {
		pod.Labels = map[string]string{"from": cm.Data["from"]}
		return controllerutil.SetControllerReference(cm, pod, r.Scheme())
	}); err != nil {
		return reconcile.Result{}, err
	}
	read, list := &corev1.Pod{}, &corev1.PodList{}
	if err := errors.Join(r.Get(ctx, req.NamespacedName, read),
		r.List(ctx, list, crclient.MatchingFields{"from": cm.Data["from"]})); err != nil {
		return reconcile.Result{}, err
	}
	if read.ResourceVersion != pod.ResourceVersion || len(list.Items) == 0 {
		r.stale.Add(1)
	}
	return reconcile.Result{}, nil
}

// quiet returns options of a manager that opens no port, for the kinds of package apitest.
func quiet() ctrl.Options {
	yes := true
	return ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &yes}, // names are unique per process
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			m := meta.NewDefaultRESTMapper(nil)
			for kind := range scheme.Scheme.KnownTypes(corev1.SchemeGroupVersion) {
				scope := meta.RESTScopeNamespace
				if kind == "Node" || kind == "Namespace" {
					scope = meta.RESTScopeRoot
				}
				m.Add(corev1.SchemeGroupVersion.WithKind(kind), scope)
			}
			return m, nil
		},
	}
}

// readTrace returns the records in a file.
func readTrace(t *testing.T, file string) []trace.LineRecord {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	var records []trace.LineRecord
	for line := range bytes.Lines(data) {
		var rec trace.LineRecord
		must(t, json.Unmarshal(line, &rec))
		records = append(records, rec)
	}
	return records
}

// startManager sets up podOf with controller-runtime's builder on a manager of the adapter.
func startManager(t *testing.T, cfg *rest.Config, o ctrl.Options) (*podOf, ctrl.Manager) {
	t.Helper()
	m, err := adapter.NewManager(cfg, o)
	must(t, err)
	must(t, m.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "from", func(o crclient.Object) []string {
		return []string{o.GetLabels()["from"]}
	}))
	r := &podOf{Client: m.GetClient()}
	must(t, ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&corev1.Pod{}).
		Watches(&corev1.Secret{}, &handler.EnqueueRequestForObject{}).
		WithOptions(crcontroller.Options{MaxConcurrentReconciles: 4}).Complete(r))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	return r, m
}

// A controller built with controller-runtime's builder on the adapter's manager reads its own
// writes, and its trace has the causes and writes of each reconcile.
func TestManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "trace")
		t.Setenv(trace.Env, "file:"+file)
		s := apitest.New()
		r, m := startManager(t, s.REST(), quiet())
		for _, name := range []string{"a", "b", "c"} {
			must(t, m.GetClient().Create(t.Context(), configMap(name, "yes")))
		}
		time.Sleep(time.Second)
		if len(s.Objects("pods")) != 3 || r.stale.Load() != 0 || r.runs.Load() < 3 {
			t.Fatalf("%d pods, %d stale reads, %d runs", len(s.Objects("pods")), r.stale.Load(), r.runs.Load())
		}
		must(t, m.GetClient().Delete(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}))
		time.Sleep(time.Second)
		records := readTrace(t, file)
		var restored *trace.LineRecord
		for _, rec := range records {
			if rec.Kind != "ConfigMap" || rec.Controller != "configmap" || len(rec.Causes) == 0 {
				t.Errorf("record %+v", rec)
			}
			// podOf gets the ConfigMap and, twice, the Pod, and lists Pods
			verbs := ""
			for _, read := range rec.Reads {
				verbs += read.Verb + read.Kind + " "
			}
			if verbs != "getConfigMap getPod getPod listPod " || rec.Reads[0].Name != rec.Name ||
				rec.Reads[0].ResourceVersion == "" ||
				rec.Reads[3].Selector != "from=here" || rec.Reads[3].Count == nil || *rec.Reads[3].Count == 0 {
				t.Errorf("record of %s has reads %+v", rec.Name, rec.Reads)
			}
			if rec.Name == "b" && rec.Causes[0].Event == trace.Delete {
				restored = &rec
			}
		}
		if restored == nil || restored.Causes[0].Kind != "Pod" || len(restored.Writes) != 1 ||
			restored.Writes[0].Verb != "create" {
			t.Errorf("no record has the deletion of the pod as the cause of its creation: %+v", restored)
		}
	})
}
