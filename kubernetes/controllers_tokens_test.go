package kubernetes_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

func secretOf(t *testing.T, env *testenv.Env, namespace, name string) *corev1.Secret {
	t.Helper()
	env.Settle(t)
	secret, err := client.Get[corev1.Secret](t.Context(), env.Client(), client.Key{Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return secret
}

// authenticated returns the user that a token authenticates, or "" if it is not accepted.
func authenticated(t *testing.T, env *testenv.Env, token string) string {
	t.Helper()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	env.Create(t, review)
	return review.Status.User.Username
}

// Secrets that request a legacy token get one. It is invalid after the deletion of the Secret or
// the account.
func TestTokensInSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}}
		env.Create(t, account)
		make := func(name, account string) {
			env.Create(t, &corev1.Secret{
				Type: corev1.SecretTypeServiceAccountToken,
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
					Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
			})
		}
		make("one", "robot")
		make("two", "robot")
		one, two := secretOf(t, env, "default", "one"), secretOf(t, env, "default", "two")
		token := string(one.Data["token"])
		if token == "" || string(one.Data["namespace"]) != "default" ||
			one.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) {
			t.Fatalf("%+v", one)
		}
		time.Sleep(10 * 365 * 24 * time.Hour)
		const name = "system:serviceaccount:default:robot"
		assert.Equalf(t, authenticated(t, env, token), name, "the token authenticates")
		used := secretOf(t, env, "default", "one").Labels["kubernetes.io/legacy-token-last-used"]
		assert.Equalf(t, used, time.Now().UTC().Format(time.DateOnly), "last used")
		require.NoError(t, env.Client().Delete(t.Context(), one))
		assert.Equalf(t, authenticated(t, env, token), "", "without its Secret, the token authenticates")
		require.NoError(t, env.Client().Delete(t.Context(), account))
		if secretOf(t, env, "default", "two") != nil {
			t.Error("the Secret still exists without its account")
		}
		got := authenticated(t, env, string(two.Data["token"]))
		assert.Equalf(t, got, "", "without its account, the token authenticates")
	})
}

// An expired bootstrap token is deleted, but no Secret in another namespace.
func TestBootstrapTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		for name, namespace := range map[string]string{"bootstrap-token-aaaaaa": "kube-system",
			"elsewhere": "default"} {
			env.Create(t, &corev1.Secret{
				Type: "bootstrap.kubernetes.io/token", ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
				StringData: map[string]string{
					"token-id": "aaaaaa", "token-secret": "0123456789abcdef",
					"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
				},
			})
		}
		time.Sleep(59 * time.Minute)
		if secretOf(t, env, "kube-system", "bootstrap-token-aaaaaa") == nil {
			t.Error("too early")
		}
		time.Sleep(2 * time.Minute)
		if secretOf(t, env, "kube-system", "bootstrap-token-aaaaaa") != nil {
			t.Error("too late")
		}
		if secretOf(t, env, "default", "elsewhere") == nil {
			t.Error("a Secret of another namespace was deleted")
		}
	})
}

// A token that its account lists is marked after a year without use, and deleted after another
// year.
func TestUnusedTokensAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		env.Create(t, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"},
			Secrets:    []corev1.ObjectReference{{Name: "unused"}, {Name: "used"}, {Name: "mounted"}},
		})
		for _, name := range []string{"unused", "used", "mounted", "by-hand"} {
			env.Create(t, &corev1.Secret{
				Type: corev1.SecretTypeServiceAccountToken,
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
					Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
			})
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{
			ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i:1"}},
			Volumes: []corev1.Volume{{Name: "v",
				VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
		}}
		env.Create(t, pod)
		env.Settle(t)
		tracking, err := client.Get[corev1.ConfigMap](t.Context(), env.Client(),
			client.Key{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"})
		if err != nil || tracking.Data["since"] != time.Now().UTC().Format(time.DateOnly) {
			t.Errorf("%v, %v", tracking, err)
		}
		// state checks which tokens exist; those marked as invalid have a suffix.
		state := func(want string) {
			t.Helper()
			var all []string
			for _, name := range []string{"unused", "used", "mounted", "by-hand"} {
				if secret := secretOf(t, env, "default", name); secret != nil &&
					secret.Labels["kubernetes.io/legacy-token-invalid-since"] != "" {
					all = append(all, name+"(invalid)")
				} else if secret != nil {
					all = append(all, name)
				}
			}
			if got := strings.Join(all, " "); got != want {
				t.Errorf("%s: %s, want %s", time.Now().Format(time.DateOnly), got, want)
			}
		}
		const day, year = 24 * time.Hour, 365 * 24 * time.Hour
		token := string(secretOf(t, env, "default", "unused").Data["token"])
		time.Sleep(300 * day)
		if authenticated(t, env, string(secretOf(t, env, "default", "used").Data["token"])) == "" {
			t.Error("the token is not accepted")
		}
		time.Sleep(60 * day)
		state("unused used mounted by-hand")
		time.Sleep(10 * day)
		state("unused(invalid) used mounted by-hand")
		assert.Equalf(t, authenticated(t, env, token), "", "an invalid token authenticates")
		label := secretOf(t, env, "default", "unused")
		// the user needs the token after all
		delete(label.Labels, "kubernetes.io/legacy-token-invalid-since")
		require.NoError(t, env.Client().Update(t.Context(), label))
		if got := authenticated(t, env, token); got == "" {
			t.Error("the token is not accepted")
		}
		state("unused used mounted by-hand")
		time.Sleep(year + 2*day)
		state("unused(invalid) used(invalid) mounted by-hand")
		require.NoError(t, env.Client().Delete(t.Context(), pod))
		time.Sleep(2 * day)
		state("unused(invalid) used(invalid) mounted(invalid) by-hand")
		time.Sleep(year - 3*day)
		state("unused(invalid) mounted(invalid) by-hand")
		time.Sleep(10 * day)
		state("by-hand")
	})
}
