package kubernetes_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// create creates a Job that owns a pod; ttl is in seconds, and negative for none.
func create(t *testing.T, env *testenv.Env, name string, ttl int32) *batchv1.Job {
	t.Helper()
	template := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template}},
	}
	if ttl >= 0 {
		job.Spec.TTLSecondsAfterFinished = &ttl
	}
	env.Create(t, job)
	env.Create(t, &corev1.Pod{Spec: template, ObjectMeta: metav1.ObjectMeta{Name: name,
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
		}}})
	return job
}

func finish(t *testing.T, env *testenv.Env, job *batchv1.Job) {
	t.Helper()
	finishAt(t, env, job, time.Now())
}

func finishAt(t *testing.T, env *testenv.Env, job *batchv1.Job, at time.Time) {
	t.Helper()
	now := metav1.NewTime(at)
	job.Status.StartTime, job.Status.CompletionTime = &now, &now
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions,
			batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	require.NoError(t, env.Client().Subresource("status").Update(t.Context(), job, nil))
}

// jobExists waits until all controllers are idle and reports whether a Job exists. Its pod must
// exist exactly if the Job does.
func jobExists(t *testing.T, env *testenv.Env, name string) bool {
	t.Helper()
	env.Settle(t)
	_, err := client.Get[batchv1.Job](t.Context(), env.Client(), client.Key{Namespace: "default", Name: name})
	_, podErr := client.Get[corev1.Pod](t.Context(), env.Client(), client.Key{Namespace: "default", Name: name})
	assert.Equalf(t, apierrors.IsNotFound(err), apierrors.IsNotFound(podErr), "job: %v, pod: %v", err, podErr)
	return err == nil
}

// A finished Job is deleted after its time to live. Running Jobs and those without a time to live
// stay.
func TestFinishedJobsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		create(t, env, "running", 0)
		for name, ttl := range map[string]int32{"at-once": 0, "in-an-hour": 3600, "stays": -1} {
			finish(t, env, create(t, env, name, ttl))
		}
		if jobExists(t, env, "at-once") || !jobExists(t, env, "in-an-hour") {
			t.Error("now")
		}
		time.Sleep(59 * time.Minute)
		if !jobExists(t, env, "in-an-hour") {
			t.Error("too early")
		}
		time.Sleep(time.Minute)
		if jobExists(t, env, "in-an-hour") {
			t.Error("too late")
		}
		time.Sleep(365 * 24 * time.Hour)
		if !jobExists(t, env, "running") || !jobExists(t, env, "stays") {
			t.Error("deleted a Job without a time to live")
		}
	})
}

// A longer or shorter time to live applies to a Job that has already finished.
func TestTimeToLiveChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		job := create(t, env, "j", 3600)
		finish(t, env, job)
		time.Sleep(30 * time.Minute)
		change := func(seconds int32) {
			env.Get(t, job)
			job.Spec.TTLSecondsAfterFinished = &seconds
			require.NoError(t, env.Client().Update(t.Context(), job))
		}
		change(7200)
		time.Sleep(time.Hour)
		if !jobExists(t, env, "j") {
			t.Error("the longer time has no effect")
		}
		change(60)
		if jobExists(t, env, "j") {
			t.Error("the shorter time has no effect")
		}
	})
}

// Jobs that finished before the clock was set. A time in the future delays the deletion; a time
// that is further away than a timer can wait does no harm.
func TestJobsWhenTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		for name, at := range map[string]time.Time{
			"past": time.Now().Add(-24 * time.Hour), "tomorrow": time.Now().Add(24 * time.Hour),
			"never": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			finishAt(t, env, create(t, env, name, 3600), at)
		}
		if jobExists(t, env, "past") || !jobExists(t, env, "tomorrow") {
			t.Error("now")
		}
		time.Sleep(25*time.Hour - time.Minute)
		if !jobExists(t, env, "tomorrow") {
			t.Error("too early")
		}
		time.Sleep(2 * time.Minute)
		if jobExists(t, env, "tomorrow") || !jobExists(t, env, "never") {
			t.Error("after an hour")
		}
	})
}
