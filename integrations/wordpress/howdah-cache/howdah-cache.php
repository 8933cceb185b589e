<?php
/**
 * Plugin Name:       Howdah Cache
 * Description:       Tags the pages of this site for Howdah's response cache, and purges them when their content changes.
 * Version:           1.1.0
 * Requires at least: 5.9
 * Requires PHP:      7.4
 * Author:            The Howdah authors
 * License:           GPL-2.0-or-later
 * License URI:       https://www.gnu.org/licenses/old-licenses/gpl-2.0.html
 *
 * Each page that may be stored names in the field `Cache-Tag` what it was made from:
 *
 *   site      every page of the site
 *   post-N    a post, a page or another object with the id N, alone or in a list
 *   posts     any posts: a list that does not tell which
 *   comments  comments of any posts
 *   list      a list of posts: front page, archive, search, feed
 *   term-N    the archive of a term
 *   author-N  the archive of an author
 *
 * The field is complete at the end of a page, so the page is buffered until then.
 *
 * In a network of sites each tag begins with that of its site, as in `blog-2-post-7`.
 *
 * A change purges the tags that it concerns. A change that may show on any page, such as one of a menu or of an
 * option, purges `site`. Purging needs `howdah_cache_purge()`, which Howdah defines in PHP. Pages of users and
 * previews get `Cache-Control: private, no-store`. Under another server, the plugin only sends these fields.
 *
 * @package HowdahCache
 */

defined('ABSPATH') || exit;

/** Collects tags of the page and purges of the request. */
final class Howdah_Cache
{
    /** Tags that a field holds at most. A page with more posts has the tag `posts` instead. */
    private const MOST_TAGS = 200;

    /** Bytes of a page that are buffered; longer ones are not stored. */
    private const MOST_BYTES = 4 << 20;

    /** Options whose change shows on no page. */
    private const INVISIBLE = '/^(_transient|_site_transient|cron$|rewrite_rules$|auto_updater|action_scheduler|recently_|'
        . 'auth_|nonce_|logged_in_|https_detection_|can_compress_scripts$|db_upgraded$|fresh_site$|recovery_|'
        . 'wp_force_|finished_|admin_email_lifespan$|user_count$|uninstall_plugins$|dismissed|theme_switch)/';

    /** @var array<string, true> Tags of the page. */
    private static array $tags = [];

    /** @var array<string, true> Tags to purge at the end of the request. */
    private static array $purged = [];

    /** All pages are purged at the end of the request, also those without tags. */
    private static bool $purges_all = false;

    public static function start(): void
    {
        add_action('init', [self::class, 'send_tags'], 99);
        add_action('wp', [self::class, 'tag_page'], 99);
        add_action('template_redirect', [self::class, 'buffer'], -99);
        add_filter('the_posts', [self::class, 'tag_posts'], 99);
        add_action('pre_get_posts', [self::class, 'tag_unfiltered_query'], 99);
        add_filter('the_comments', [self::class, 'tag_comments'], 99, 2);
        add_filter('rest_post_dispatch', [self::class, 'tag_rest'], 99, 3);
        register_activation_hook(__FILE__, [self::class, 'purge_all']);
        register_deactivation_hook(__FILE__, [self::class, 'purge_all']);

        add_action('transition_post_status', [self::class, 'post_status_changed'], 10, 3);
        add_action('post_updated', [self::class, 'post_updated'], 10, 3);
        add_action('before_delete_post', [self::class, 'post_deleted']);
        add_action('attachment_updated', [self::class, 'purge_site']);
        add_action('delete_attachment', [self::class, 'purge_site']);
        foreach (['added_post_meta', 'updated_post_meta', 'deleted_post_meta'] as $hook) {
            add_action($hook, [self::class, 'post_meta_changed'], 10, 3);
        }
        add_action('transition_comment_status', [self::class, 'comment_status_changed'], 10, 3);
        add_action('wp_insert_comment', [self::class, 'comment_inserted'], 10, 2);
        add_action('edit_comment', [self::class, 'comment_changed']);
        add_action('delete_comment', [self::class, 'comment_changed']);
        add_action('set_object_terms', [self::class, 'terms_of_post_changed'], 10, 6);

        foreach (['updated_option', 'added_option', 'deleted_option'] as $hook) {
            add_action($hook, [self::class, 'option_changed']);
        }
        $everywhere = [
            'wp_update_nav_menu', 'wp_delete_nav_menu', 'created_term', 'edited_term', 'delete_term', 'switch_theme',
            'customize_save_after', 'activated_plugin', 'deactivated_plugin', 'profile_update', 'deleted_user',
            'upgrader_process_complete', 'permalink_structure_changed', 'added_term_meta', 'updated_term_meta',
            'deleted_term_meta',
        ];
        foreach ($everywhere as $hook) {
            add_action($hook, [self::class, 'purge_site']);
        }
        add_action('shutdown', [self::class, 'send_purges'], 0);
        add_action('admin_bar_menu', [self::class, 'add_button'], 90);
        add_action('admin_post_howdah_cache_purge', [self::class, 'button_pressed']);
    }

    // -- tags --

    /**
     * Sends the tags that are known so far, or forbids to store the page. Redirections and pages that other code makes
     * end with those; the theme's pages are buffered until all are known.
     */
    public static function send_tags(): void
    {
        if (headers_sent() || is_admin() || wp_doing_cron()) {
            return;
        }
        self::add_tag('site');
        if (self::may_be_stored()) {
            header('Cache-Tag: ' . self::field(array_keys(self::$tags)), true);
        } else {
            self::forbid();
        }
    }

    private static function forbid(): void
    {
        header_remove('Cache-Tag');
        header('Cache-Control: private, no-store', true);
    }

    /** Tags a page by what its address stands for. */
    public static function tag_page(): void
    {
        array_map([self::class, 'add_tag'], self::tags_of_query($GLOBALS['wp_query']));
        self::send_tags();
    }

    /** Keeps a page until its tags are known. */
    public static function buffer(): void
    {
        ob_start([self::class, 'page_ended'], self::MOST_BYTES);
    }

    /** Called with a page, or with parts of one that is too long or that a theme has flushed. */
    public static function page_ended(string $page, int $phase): string
    {
        if (!headers_sent()) {
            if ($phase & PHP_OUTPUT_HANDLER_FINAL) {
                self::send_tags();
            } else {
                self::forbid();
            }
        }
        return $page;
    }

    private static function add_tag(string $tag): void
    {
        self::$tags[self::of_this_site($tag)] = true;
    }

    /**
     * Tags the posts of a list that is a part of a page.
     *
     * @param mixed $posts
     */
    public static function tag_posts($posts)
    {
        foreach (is_array($posts) ? $posts : [] as $post) {
            if ($post instanceof WP_Post && is_post_type_viewable($post->post_type)) {
                self::add_tag("post-{$post->ID}");
            }
        }
        return $posts;
    }

    /** Tags a page with a list whose posts no filter sees, as with get_posts(). */
    public static function tag_unfiltered_query(WP_Query $query): void
    {
        if (!$query->get('suppress_filters') || $query->is_main_query()) {
            return;
        }
        foreach ((array) ($query->get('post_type') ?: 'post') as $type) {
            if ($type === 'any' || is_post_type_viewable($type)) {
                self::add_tag('posts');
            }
        }
    }

    /**
     * Tags a page that shows comments of other posts than its own.
     *
     * @param mixed $comments
     */
    public static function tag_comments($comments, WP_Comment_Query $query)
    {
        if (empty($query->query_vars['post_id'])) {
            self::add_tag('comments');
        }
        return $comments;
    }

    /** Whether a page is the same for all visitors without a session. */
    private static function may_be_stored(): bool
    {
        if (is_user_logged_in() || is_preview() || is_customize_preview()) {
            return false;
        }
        if (defined('DONOTCACHEPAGE') && constant('DONOTCACHEPAGE')) {
            return false;
        }
        // A page behind a password differs by a cookie that only WordPress knows.
        return !(is_singular() && get_queried_object() instanceof WP_Post && get_queried_object()->post_password !== '');
    }

    /** The value of the field: at most {@see self::MOST_TAGS} tags. */
    private static function field(array $tags): string
    {
        if (count($tags) > self::MOST_TAGS) {
            $tags = preg_grep('/post-\d+$/', $tags, PREG_GREP_INVERT);
            $tags = [self::of_this_site('posts'), ...array_slice($tags, 0, self::MOST_TAGS - 1)];
        }
        return implode(',', $tags);
    }

    private static function of_this_site(string $tag): string
    {
        return is_multisite() ? 'blog-' . get_current_blog_id() . '-' . $tag : $tag;
    }

    /** @return string[] */
    private static function tags_of_query(WP_Query $query): array
    {
        $tags = ['site'];
        $object = $query->get_queried_object();
        if ($object instanceof WP_Term) {
            $tags[] = "term-{$object->term_id}";
        } elseif ($object instanceof WP_User) {
            $tags[] = "author-{$object->ID}";
        }
        if (!$query->is_singular()) {
            $tags[] = 'list';
        }
        if ($query->is_feed()) {
            // The date of a feed is that of the last change of any post, or of any comment.
            $tags[] = 'posts';
            $tags[] = 'comments';
        }
        foreach ((array) $query->posts as $post) {
            $tags[] = 'post-' . ($post instanceof WP_Post ? $post->ID : (int) $post);
        }
        return $tags;
    }

    /**
     * Tags an answer of the REST API.
     *
     * @param WP_HTTP_Response $response
     * @param WP_REST_Server   $server
     * @param WP_REST_Request  $request
     */
    public static function tag_rest($response, $server, $request)
    {
        if ($response instanceof WP_HTTP_Response && $request->get_method() === 'GET' && !is_user_logged_in()) {
            $tags = ['site', 'list'];
            $data = $response->get_data();
            foreach (isset($data['id']) ? [$data] : (is_array($data) ? $data : []) as $item) {
                if (is_array($item) && isset($item['id']) && is_int($item['id'])) {
                    $tags[] = "post-{$item['id']}";
                }
            }
            $tags = array_map([self::class, 'of_this_site'], array_values(array_unique($tags)));
            $response->header('Cache-Tag', self::field($tags));
        }
        return $response;
    }

    // -- changes --

    /** A post that appears or disappears may show on any page: in lists of recent posts, in menus, beside others. */
    public static function post_status_changed(string $new, string $old, WP_Post $post): void
    {
        if (($new === 'publish' || $old === 'publish') && self::is_shown($post) && $new !== $old) {
            self::purge_site();
        } elseif ($new === 'publish' && self::is_shown($post)) {
            self::purge_post($post->ID);
        }
    }

    /** A title or an address shows wherever the post is linked. */
    public static function post_updated(int $id, WP_Post $after, WP_Post $before): void
    {
        if ($after->post_status !== 'publish' || !self::is_shown($after)) {
            return;
        }
        $elsewhere = ['post_title', 'post_name', 'post_date', 'post_author', 'post_parent', 'menu_order', 'post_password'];
        foreach ($elsewhere as $field) {
            if ($after->$field !== $before->$field) {
                self::purge_site();
                return;
            }
        }
        self::purge_post($id);
    }

    public static function post_deleted(int $id): void
    {
        $post = get_post($id);
        if ($post && self::is_shown($post)) {
            self::purge_site();
        }
    }

    /** @param mixed $meta_id */
    public static function post_meta_changed($meta_id, int $id, string $key): void
    {
        // Written whenever somebody opens an editor.
        if (in_array($key, ['_edit_lock', '_edit_last', '_pingme', '_encloseme'], true)) {
            return;
        }
        $post = get_post($id);
        if ($post && $post->post_status === 'publish' && self::is_shown($post)) {
            self::purge_post($id);
        } elseif ($post && in_array($post->post_type, ['nav_menu_item', 'attachment'], true)) {
            // An image shows with its text wherever a post or a template has it.
            self::purge_site();
        }
    }

    /** @param int|string $new */
    public static function comment_status_changed($new, $old, WP_Comment $comment): void
    {
        if ($new === 'approved' || $old === 'approved') {
            self::purge_comments($comment);
        }
    }

    public static function comment_inserted(int $id, WP_Comment $comment): void
    {
        if ((string) $comment->comment_approved === '1') {
            self::purge_comments($comment);
        }
    }

    /** @param int|string $id */
    public static function comment_changed($id): void
    {
        $comment = get_comment($id);
        if ($comment) {
            self::purge_comments($comment);
        }
    }

    /** @param mixed $terms */
    public static function terms_of_post_changed(int $id, $terms, array $now, string $taxonomy, bool $append, array $before): void
    {
        $post = get_post($id);
        if ($post && $post->post_status === 'publish' && array_map('intval', $now) !== array_map('intval', $before)) {
            self::purge_site();
        }
    }

    public static function option_changed(string $option): void
    {
        if (!preg_match(self::INVISIBLE, $option)) {
            self::purge_site();
        }
    }

    /** Types that only editors see change no page. */
    private static function is_shown(WP_Post $post): bool
    {
        if (in_array($post->post_type, ['revision', 'customize_changeset', 'oembed_cache', 'user_request'], true)) {
            return false;
        }
        // Menus, templates, styles and blocks are parts of other pages.
        $parts = ['nav_menu_item', 'wp_template', 'wp_template_part', 'wp_global_styles', 'wp_navigation', 'wp_block', 'custom_css'];
        return in_array($post->post_type, $parts, true) || is_post_type_viewable($post->post_type);
    }

    // -- purges --

    /** Purges the pages on which a post shows; those of a part of pages are all. */
    private static function purge_post(int $id): void
    {
        $post = get_post($id);
        if (!$post || is_post_type_viewable($post->post_type)) {
            self::$purged[self::of_this_site("post-$id")] = true;
            self::$purged[self::of_this_site('posts')] = true;
        } else {
            self::purge_site();
        }
    }

    private static function purge_comments(WP_Comment $comment): void
    {
        self::purge_post((int) $comment->comment_post_ID);
        self::$purged[self::of_this_site('comments')] = true;
    }

    public static function purge_site(): void
    {
        self::$purged[self::of_this_site('site')] = true;
    }

    /** Purges everything, also pages that were stored without the plugin and have no tags. */
    public static function purge_all(): void
    {
        self::$purges_all = true;
    }

    /** Purges once, after everything has been written. */
    public static function send_purges(): void
    {
        if (!function_exists('howdah_cache_purge')) {
            return;
        }
        if (self::$purges_all) {
            howdah_cache_purge([], true);
        } elseif (self::$purged !== []) {
            howdah_cache_purge(array_keys(self::$purged));
        }
        self::$purged = [];
        self::$purges_all = false;
    }

    // -- for administrators --

    public static function add_button(WP_Admin_Bar $bar): void
    {
        if (!current_user_can('manage_options') || !function_exists('howdah_cache_purge')) {
            return;
        }
        $bar->add_node([
            'id' => 'howdah-cache',
            'title' => esc_html__('Purge cache', 'howdah-cache'),
            'href' => wp_nonce_url(admin_url('admin-post.php?action=howdah_cache_purge'), 'howdah_cache_purge'),
        ]);
    }

    public static function button_pressed(): void
    {
        if (!current_user_can('manage_options')) {
            wp_die(esc_html__('You are not allowed to do this.', 'howdah-cache'), '', ['response' => 403]);
        }
        check_admin_referer('howdah_cache_purge');
        if (is_multisite()) {
            // Other sites may have the same host.
            self::purge_site();
        } else {
            self::purge_all();
        }
        wp_safe_redirect(wp_get_referer() ?: admin_url());
        exit;
    }
}

Howdah_Cache::start();
