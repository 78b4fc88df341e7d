package controller_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	kbatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
	"kelson.dev/examples/cronjob/internal/controller"
)

// newEnv returns a control plane with only the operator; the tests complete Jobs themselves. Time
// starts at midnight.
func newEnv(t *testing.T) *testenv.Env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return testenv.New(t, testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"),
		testenv.Scheme(scheme),
		testenv.Operator(operator.AddToScheme(batchv1.AddToScheme), controller.CronJobController()))
}

func cron(schedule string) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
	c.Spec.Schedule = schedule
	c.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}
	return c
}

func jobs(t *testing.T, env *testenv.Env) []*kbatchv1.Job {
	t.Helper()
	env.Settle(t)
	list, err := client.List[kbatchv1.Job](t.Context(), env.Client(), client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b *kbatchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list
}

// end ends a Job with a condition.
func end(t *testing.T, env *testenv.Env, job *kbatchv1.Job, how kbatchv1.JobConditionType) {
	t.Helper()
	now := metav1.Now()
	job.Status.StartTime = &now
	before := kbatchv1.JobSuccessCriteriaMet
	if how == kbatchv1.JobFailed {
		before = kbatchv1.JobFailureTarget
	} else {
		job.Status.CompletionTime = &now
	}
	for _, kind := range []kbatchv1.JobConditionType{before, how} {
		job.Status.Conditions = append(job.Status.Conditions,
			kbatchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if err := env.Client().Subresource("status").Update(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	env.Settle(t)
}

func wantReason(t *testing.T, env *testenv.Env, c *batchv1.CronJob, reason string) {
	t.Helper()
	env.Get(t, c)
	if got, _ := reconcile.GetCondition(c, controller.ConditionScheduled); got.Reason != reason {
		t.Errorf("condition is %+v, want reason %s", got, reason)
	}
}

// The controller starts one Job an hour for a week, and keeps only as many as the history's limit.
func TestAWeekOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		c := cron("0 * * * *")
		env.Create(t, c)
		seen := map[string]bool{}
		for range 7 * 24 {
			time.Sleep(time.Hour)
			for _, job := range jobs(t, env) {
				if !seen[job.Name] {
					seen[job.Name] = true
					end(t, env, job, kbatchv1.JobComplete)
				}
			}
		}
		if left := jobs(t, env); len(seen) != 7*24 || len(left) != 3 {
			t.Errorf("%d Jobs were started, and %d are kept; want 168 and 3", len(seen), len(left))
		}
		env.Get(t, c)
		if len(c.Status.Active) != 0 || !c.Status.LastScheduleTime.Equal(
			&metav1.Time{Time: time.Now().Truncate(time.Hour)}) {
			t.Errorf("status is %+v", c.Status)
		}
	})
}

// A Job is owned by its CronJob and listed as active, and is deleted with the CronJob.
func TestJobsBelongToTheirCronJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		c := cron("* * * * *")
		env.Create(t, c)
		time.Sleep(time.Minute)
		all := jobs(t, env)
		if len(all) != 1 || !metav1.IsControlledBy(all[0], c) {
			t.Fatalf("%+v", all)
		}
		env.Get(t, c)
		if len(c.Status.Active) != 1 || c.Status.Active[0].UID != all[0].UID {
			t.Errorf("active: %+v", c.Status.Active)
		}
		if err := env.Client().Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if all := jobs(t, env); len(all) > 0 {
			t.Errorf("%d Jobs stay", len(all))
		}
	})
}

// While a Job runs, Allow starts another, Forbid waits for its end, and Replace replaces it.
func TestConcurrencyPolicies(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy][]int{
		batchv1.AllowConcurrent: {1, 2, 3}, batchv1.ForbidConcurrent: {1, 1, 1}, batchv1.ReplaceConcurrent: {1, 1, 1},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := newEnv(t)
				c := cron("* * * * *")
				c.Spec.ConcurrencyPolicy = policy
				env.Create(t, c)
				var first string
				for i, n := range want {
					time.Sleep(time.Minute)
					all := jobs(t, env)
					if len(all) != n {
						t.Fatalf("%d Jobs after %d minutes, want %d", len(all), i+1, n)
					}
					if i == 0 {
						first = all[0].Name
					}
				}
				last := jobs(t, env)
				if replaced := last[0].Name != first; replaced != (policy == batchv1.ReplaceConcurrent) {
					t.Errorf("the first Job was replaced: %v", replaced)
				}
				if policy == batchv1.ForbidConcurrent {
					wantReason(t, env, c, "StillRunning")
					end(t, env, last[0], kbatchv1.JobComplete) // the delayed one starts immediately
					if all := jobs(t, env); len(all) != 2 {
						t.Errorf("%d Jobs after the first has ended", len(all))
					}
				}
			})
		})
	}
}

// A suspended CronJob starts no Jobs. After the suspension, only one of the missed Jobs starts.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		c, yes := cron("* * * * *"), true
		c.Spec.Suspend = &yes
		env.Create(t, c)
		time.Sleep(365 * 24 * time.Hour)
		if all := jobs(t, env); len(all) > 0 {
			t.Fatalf("%d Jobs were started", len(all))
		}
		wantReason(t, env, c, "Suspended")
		c.Spec.Suspend = nil
		if err := env.Client().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if all := jobs(t, env); len(all) != 1 { // of half a million due Jobs
			t.Errorf("%d Jobs after a year", len(all))
		}
	})
}

// A Job whose starting deadline has passed is not started. The next one starts on schedule.
func TestStartingDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		c, yes, deadline := cron("0 0 * * *"), true, int64(600)
		c.Spec.Suspend, c.Spec.StartingDeadlineSeconds = &yes, &deadline
		env.Create(t, c)
		time.Sleep(24*time.Hour + 20*time.Minute) // the time has passed, and so has the deadline
		env.Get(t, c)
		c.Spec.Suspend = nil
		if err := env.Client().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if all := jobs(t, env); len(all) > 0 {
			t.Errorf("%d Jobs were started too late", len(all))
		}
		wantReason(t, env, c, "OnSchedule")
		if c.Status.LastScheduleTime == nil {
			t.Error("the controller still waits for the missed time")
		}
		time.Sleep(24 * time.Hour)
		if all := jobs(t, env); len(all) != 1 {
			t.Errorf("%d Jobs on the day after", len(all))
		}
	})
}

// Failed and complete Jobs are kept up to their own limits.
func TestFailedJobsHaveASeparateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		c, two := cron("* * * * *"), int32(2)
		c.Spec.FailedJobsHistoryLimit = &two
		env.Create(t, c)
		ended := map[string]bool{}
		for i := range 12 {
			time.Sleep(time.Minute)
			for _, job := range jobs(t, env) {
				if ended[job.Name] {
					continue
				}
				ended[job.Name] = true
				how := kbatchv1.JobComplete
				if i%2 == 0 {
					how = kbatchv1.JobFailed
				}
				end(t, env, job, how)
			}
		}
		count := map[kbatchv1.JobConditionType]int{}
		for _, job := range jobs(t, env) {
			count[job.Status.Conditions[1].Type]++
		}
		if count[kbatchv1.JobComplete] != 3 || count[kbatchv1.JobFailed] != 2 {
			t.Errorf("kept: %v, want 3 and 2", count)
		}
	})
}

// An invalid schedule sets the condition Accepted to false.
func TestInvalidSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t)
		c := cron("every day")
		env.Create(t, c)
		env.Settle(t)
		env.Get(t, c)
		if got, ok := reconcile.GetCondition(c, reconcile.ConditionAccepted); !ok ||
			got.Status != metav1.ConditionFalse {
			t.Errorf("conditions: %+v", c.Status.Conditions)
		}
	})
}
