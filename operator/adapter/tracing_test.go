package adapter_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/adapter"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/trace"
)

// The traces of controllers of controller-runtime have logs, live reads, backoff and the state of
// the queue, with the priority queue and with client-go's queue. The operator's own log is
// complete.
func TestLogsAndQueues(t *testing.T) {
	for name, priorities := range map[string]bool{"priority queue": true, "workqueue": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testLogsAndQueues(t, priorities) }) })
	}
}

func testLogsAndQueues(t *testing.T, priorities bool) {
	file := filepath.Join(t.TempDir(), "trace")
	t.Setenv(trace.Env, "file:"+file)
	var mu sync.Mutex
	var logged []string
	o := quiet()
	o.Logger = funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, prefix+" "+args)
	}, funcr.Options{})
	o.Controller.UsePriorityQueue = &priorities
	m, err := adapter.NewManager(apitest.New().REST(), o)
	must(t, err)
	failures := 2
	r := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		log := ctrl.LoggerFrom(ctx).WithName("own").WithValues("step", 1)
		log.Info("reconciling", "size", 3)
		log.V(1).Info("not enabled")
		if err := m.GetAPIReader().Get(ctx, req.NamespacedName, &corev1.ConfigMap{}); err != nil {
			return reconcile.Result{}, err
		}
		var all corev1.ConfigMapList
		if err := m.GetAPIReader().List(ctx, &all, crclient.InNamespace(req.Namespace)); err != nil {
			return reconcile.Result{}, err
		}
		if req.Name == "waits" {
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}
		if failures--; failures >= 0 {
			log.Error(errors.New("no quota"), "cannot create")
			return reconcile.Result{}, errors.New("try again")
		}
		return reconcile.Result{}, nil
	})
	must(t, ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(r))
	stop := require.Running(t, m.Start)
	must(t, m.GetClient().Create(t.Context(), configMap("waits", "")))
	time.Sleep(time.Second)
	must(t, m.GetClient().Create(t.Context(), configMap("fails", "")))
	time.Sleep(time.Second)
	stop()

	records := readTrace(t, file)
	if len(records) != 4 {
		t.Fatalf("%d records: %+v", len(records), records)
	}
	for i, rec := range records {
		if len(rec.Logs) == 0 || rec.Logs[0].Message != "reconciling" || rec.Logs[0].Attributes != "step=1 size=3" ||
			rec.Logs[0].Level != "INFO" {
			t.Errorf("record %d has logs %+v", i, rec.Logs)
		}
		if rec.Queue == nil {
			t.Errorf("record %d has no queue", i)
			continue
		}
		retries, delayed, logs := i-1, 1, 2
		if i == 0 {
			retries, delayed = 0, 0
		}
		if i == 0 || i == 3 {
			logs = 1
		}
		if rec.Queue.Retries != retries || rec.Queue.Delayed != delayed || rec.Queue.Ready != 0 ||
			rec.Queue.Running != 1 || len(rec.Logs) != logs {
			t.Errorf("record %d: queue %+v, logs %+v", i, rec.Queue, rec.Logs)
		}
		backoff := ""
		switch i { // the delays of controller-runtime's default rate limiter
		case 1:
			backoff = "5ms"
		case 2:
			backoff = "10ms"
		}
		assert.Equalf(t, rec.RetryAfter, backoff, "record %d has backoff", i)
		if i > 0 && i < 3 && rec.Error != "try again" {
			t.Errorf("record %d has no reason of the backoff: %+v", i, rec)
		}
		if len(rec.Reads) != 2 {
			t.Errorf("record %d has reads %+v", i, rec.Reads)
			continue
		}
		if get := rec.Reads[0]; get.Verb != "get" || !get.Live || get.Kind != "ConfigMap" || get.ResourceVersion == "" {
			t.Errorf("record %d: read %+v", i, get)
		}
		if list := rec.Reads[1]; list.Verb != "list" || !list.Live || list.Kind != "ConfigMap" || list.Count == nil ||
			*list.Count != min(i, 1)+1 {
			t.Errorf("record %d: read %+v", i, list)
		}
		if logs == 2 && (rec.Logs[1].Level != "ERROR" || rec.Logs[1].Attributes != `step=1 err="no quota"`) {
			t.Errorf("record %d: logs %+v", i, rec.Logs)
		}
	}
	own := 0
	for _, line := range logged {
		if strings.HasPrefix(line, "own ") && strings.Contains(line, `"size"=3`) && strings.Contains(line, `"step"=1`) {
			own++
		}
	}
	if own != 4 {
		t.Errorf("the operator's own log has %d of 4 records: %q", own, logged)
	}
}
