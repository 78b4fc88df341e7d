package controlplane_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// dangling returns the status of the condition Dangling.
func dangling(fs *flowcontrolv1.FlowSchema) flowcontrolv1.ConditionStatus {
	for _, c := range fs.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return c.Status
		}
	}
	return ""
}

// Priority and fairness has Kubernetes' default objects and maintains them like Kubernetes; headers
// of every response name the objects that classified the request.
func TestPriorityAndFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{})
		ctx, flows := t.Context(), kubernetes.NewForConfigOrDie(plane.RESTConfig()).FlowcontrolV1()
		schemas, err := flows.FlowSchemas().List(ctx, metav1.ListOptions{})
		if err != nil || len(schemas.Items) != len(bootstrap.MandatoryFlowSchemas)+len(bootstrap.SuggestedFlowSchemas) {
			t.Fatalf("%d FlowSchemas, %v", len(schemas.Items), err)
		}
		uids := map[string]string{}
		for _, fs := range schemas.Items {
			uids[fs.Name] = string(fs.UID)
			if dangling(&fs) != flowcontrolv1.ConditionFalse {
				t.Errorf("%s: %v", fs.Name, fs.Status)
			}
		}
		levels, err := flows.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil || len(levels.Items) != len(bootstrap.MandatoryPriorityLevelConfigurations)+
			len(bootstrap.SuggestedPriorityLevelConfigurations) {
			t.Fatalf("%d levels, %v", len(levels.Items), err)
		}
		for _, pl := range levels.Items {
			uids["level "+pl.Name] = string(pl.UID)
		}
		account := &user.DefaultInfo{Name: "system:serviceaccount:x:y",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:x"}}
		for _, test := range []struct {
			user                *user.DefaultInfo
			path, schema, level string
		}{
			{&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, "/api/v1/pods", "exempt",
				"exempt"},
			{&user.DefaultInfo{Name: "ann"}, "/api/v1/pods", "global-default", "global-default"},
			{&user.DefaultInfo{Name: "ann"}, "/readyz", "probes", "exempt"},
			{account, "/api/v1/pods", "service-accounts", "workload-low"},
			{&user.DefaultInfo{Name: user.KubeScheduler},
				"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", "system-leader-election",
				"leader-election"},
		} {
			resp, err := (&http.Client{Transport: plane.TransportAs(test.user)}).Get("http://plane" + test.path)
			require.NoError(t, err)
			resp.Body.Close()
			schema, level := resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID),
				resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
			if schema != uids[test.schema] || level != uids["level "+test.level] {
				t.Errorf("%s of %s is classified as %s, %s", test.path, test.user.Name, schema, level)
			}
		}
		if code, page := get(t, plane, "/debug/api_priority_and_fairness/dump_priority_levels"); code != http.StatusOK || !strings.Contains(page, "workload-low,") {
			t.Errorf("%d %s", code, page)
		}
		if code, page := get(t, plane, "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1"); code != http.StatusOK || !strings.Contains(page, "dump_requests") {
			t.Errorf("the request itself is not among the executing ones: %d %s", code, page)
		}
		if code, page := get(t, plane, "/metrics"); code != http.StatusOK ||
			!strings.Contains(page, `apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-low"} 245`) {
			t.Errorf("%d %s", code, page)
		}
		statusOfSchemas(t, ctx, plane)
		maintained(t, ctx, plane)
	})
}

// statusOfSchemas checks that a FlowSchema's status depends on its priority level.
func statusOfSchemas(t *testing.T, ctx context.Context, plane *controlplane.ControlPlane) {
	flows := kubernetes.NewForConfigOrDie(plane.RESTConfig()).FlowcontrolV1()
	mine := bootstrap.SuggestedFlowSchemaGlobalDefault.DeepCopy()
	mine.ObjectMeta, mine.Spec.PriorityLevelConfiguration.Name = metav1.ObjectMeta{Name: "mine"}, "my-level"
	_, err := flows.FlowSchemas().Create(ctx, mine, createOpts)
	require.NoError(t, err)
	want := func(status flowcontrolv1.ConditionStatus) {
		t.Helper()
		synctest.Wait()
		fs, err := flows.FlowSchemas().Get(ctx, "mine", metav1.GetOptions{})
		if err != nil || dangling(fs) != status {
			t.Errorf("%v %v, want %s", fs.Status, err, status)
		}
	}
	want(flowcontrolv1.ConditionTrue)
	level := bootstrap.SuggestedPriorityLevelConfigurationGlobalDefault.DeepCopy()
	level.ObjectMeta = metav1.ObjectMeta{Name: "my-level"}
	_, err = flows.PriorityLevelConfigurations().Create(ctx, level, createOpts)
	require.NoError(t, err)
	want(flowcontrolv1.ConditionFalse)
	require.NoError(t, flows.PriorityLevelConfigurations().Delete(ctx, "my-level", metav1.DeleteOptions{}))
	want(flowcontrolv1.ConditionTrue)
}

// maintained checks that required objects are created again, and that protected ones are not
// changed.
func maintained(t *testing.T, ctx context.Context, plane *controlplane.ControlPlane) {
	flows := kubernetes.NewForConfigOrDie(plane.RESTConfig()).FlowcontrolV1()
	require.NoError(t, flows.FlowSchemas().Delete(ctx, "catch-all", metav1.DeleteOptions{}))
	var shares int32 = 7
	for name, update := range map[string]string{"global-default": "true", "workload-low": "false"} {
		pl, err := flows.PriorityLevelConfigurations().Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		pl.Annotations[flowcontrolv1.AutoUpdateAnnotationKey], pl.Spec.Limited.NominalConcurrencyShares = update,
			&shares
		_, err = flows.PriorityLevelConfigurations().Update(ctx, pl, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	time.Sleep(2 * time.Minute)
	for name, want := range map[string]int32{"global-default": 20, "workload-low": 7} {
		pl, err := flows.PriorityLevelConfigurations().Get(ctx, name, metav1.GetOptions{})
		if err != nil || *pl.Spec.Limited.NominalConcurrencyShares != want {
			t.Errorf("%s has %d shares, want %d; %v", name, *pl.Spec.Limited.NominalConcurrencyShares, want, err)
		}
	}
	if fs, err := flows.FlowSchemas().Get(ctx, "catch-all", metav1.GetOptions{}); apierrors.IsNotFound(err) ||
		dangling(fs) != flowcontrolv1.ConditionFalse {
		t.Errorf("catch-all: %v", err)
	}
}
