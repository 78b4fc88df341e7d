package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// More windows work at the same time than a browser opens HTTP/1.1 connections to a host.
func TestManyWindows(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	c := start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"})
	first := open(t, c)
	windows := []*tab{first}
	for range 7 {
		ctx, cancel := chromedp.NewContext(first.ctx)
		b := &tab{t: t, ctx: ctx, base: first.base}
		t.Cleanup(func() {
			_ = chromedp.Cancel(ctx)
			cancel()
		})
		windows = append(windows, b)
	}
	for _, b := range windows {
		b.goTo("/object/configmaps/kube-system/kube-root-ca.crt")
		b.shows("kube-root-ca.crt")
	}
	for _, b := range windows {
		if eval[bool](b, `document.hidden`) {
			t.Fatal("a window is hidden")
		}
	}
}

// The page follows the browser's default size of fonts; lists still scroll to their end.
func TestLargeDefaultFont(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	for i := range 200 {
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: fmt.Sprintf("item-%03d", i)}})
	}
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"}))
	_, err := chromedp.Call(b.ctx, page.SetFontSizes,
		page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: 32}})
	require.NoError(t, err)
	b.goTo("/objects/configmaps?namespace=default")
	b.until(`document.querySelector('tbody')?.innerText.includes('item-000')`)
	sizes := eval[[]float64](b, `(() => {
		const row = [...document.querySelectorAll('tbody tr[aria-rowindex]')][5];
		return [parseFloat(getComputedStyle(document.body).fontSize), parseFloat(getComputedStyle(row).fontSize), row.getBoundingClientRect().height];
	})()`)
	if sizes[0] != 26 || sizes[1] != 26 || sizes[2] != 58 {
		t.Errorf("sizes of the font, of that of a row, and of the row: %v, want twice the usual ones", sizes)
	}
	eval[any](b, `document.querySelector('.rows').scrollTop = 1e7`)
	b.until(`(() => {
		const box = document.querySelector('.rows').getBoundingClientRect(), last = [...document.querySelectorAll('tbody tr[aria-rowindex]')].pop().getBoundingClientRect();
		return document.querySelector('tbody').innerText.includes('item-199') && last.bottom <= box.bottom + 1 && last.bottom > box.top;
	})()`)
	b.shot("large-font")
}
