//go:build !linux

package main

func silentAgent() {}

func spliceWriter() {}
