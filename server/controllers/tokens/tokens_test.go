package tokens_test

import (
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

func get(t *testing.T, env *testenv.Env, namespace, name string) *corev1.Secret {
	t.Helper()
	env.Settle(t)
	secret, err := client.Get[corev1.Secret](t.Context(), env.Client(), client.Key{Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// known says whom a token is taken for; "": nobody.
func known(t *testing.T, env *testenv.Env, token string) string {
	t.Helper()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	env.Create(t, review)
	return review.Status.User.Username
}

// AUTHN-04, CTRL-02: tokens of old are made for the Secrets that ask for them, and end with Secret and account.
func TestTokensInSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}}
		env.Create(t, account)
		make := func(name, account string) {
			env.Create(t, &corev1.Secret{
				Type:       corev1.SecretTypeServiceAccountToken,
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
			})
		}
		make("one", "robot")
		make("two", "robot")
		one, two := get(t, env, "default", "one"), get(t, env, "default", "two")
		token := string(one.Data["token"])
		if token == "" || string(one.Data["namespace"]) != "default" || one.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) {
			t.Fatalf("%+v", one)
		}
		time.Sleep(10 * 365 * 24 * time.Hour)
		const name = "system:serviceaccount:default:robot"
		if got := known(t, env, token); got != name {
			t.Errorf("the token is taken for %q", got)
		}
		if used := get(t, env, "default", "one").Labels["kubernetes.io/legacy-token-last-used"]; used != time.Now().UTC().Format(time.DateOnly) {
			t.Errorf("last used: %q", used)
		}
		if err := env.Client().Delete(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if got := known(t, env, token); got != "" {
			t.Errorf("without its Secret the token is taken for %q", got)
		}
		if err := env.Client().Delete(t.Context(), account); err != nil {
			t.Fatal(err)
		}
		if get(t, env, "default", "two") != nil {
			t.Error("the Secret stays without its account")
		}
		if got := known(t, env, string(two.Data["token"])); got != "" {
			t.Errorf("without its account the token is taken for %q", got)
		}
	})
}

// AUTHN-03, CTRL-02
func TestBootstrapTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		for name, namespace := range map[string]string{"bootstrap-token-aaaaaa": "kube-system", "elsewhere": "default"} {
			env.Create(t, &corev1.Secret{
				Type: "bootstrap.kubernetes.io/token", ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
				StringData: map[string]string{
					"token-id": "aaaaaa", "token-secret": "0123456789abcdef", "expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
				},
			})
		}
		time.Sleep(59 * time.Minute)
		if get(t, env, "kube-system", "bootstrap-token-aaaaaa") == nil {
			t.Error("too early")
		}
		time.Sleep(2 * time.Minute)
		if get(t, env, "kube-system", "bootstrap-token-aaaaaa") != nil {
			t.Error("too late")
		}
		if get(t, env, "default", "elsewhere") == nil {
			t.Error("a Secret of another namespace is deleted")
		}
	})
}
