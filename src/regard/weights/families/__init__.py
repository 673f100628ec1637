"""Hugging Face model families, one file each: conversion of config.json and tensor names both ways."""
