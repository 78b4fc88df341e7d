// Package admission contains tests of admission by policies and by webhooks, in files whose names
// begin with policy or webhook. One program for both is linked faster.
package admission
