"""The demo: two pages that play the crash matrix side by side, live, and a page of receipts."""
