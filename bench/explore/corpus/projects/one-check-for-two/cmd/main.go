// Command main is the operator one-check-for-two of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("one-check-for-two") }
